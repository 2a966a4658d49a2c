"""The numbers by which a process knows its files."""

from __future__ import annotations

import os


def fill_closed_streams() -> None:
    """So that no file of ours, the log for one, gets the number of a standard stream that is closed."""
    while (taken := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(taken)
