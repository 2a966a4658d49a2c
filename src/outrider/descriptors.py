"""The numbers by which a process knows its files."""

from __future__ import annotations

import os
import sys


def fill_closed_streams() -> None:
    """So that no file of ours, the log for one, gets the number of a standard stream that is closed."""
    while (taken := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(taken)


def real_path(handle: int) -> str:
    """Where an open file is, without links; empty where the system does not say."""
    try:
        return os.readlink(f"/proc/self/fd/{handle}")
    except OSError:
        pass
    if sys.platform == "darwin":
        import fcntl

        return os.fsdecode(fcntl.fcntl(handle, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
    return ""
