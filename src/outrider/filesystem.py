"""Folders for the owner alone, whose names survive a loss of power."""

from __future__ import annotations

import os
from pathlib import Path


def make_private(folder: Path) -> None:
    """Make the folder, and those above it that are not there, for the owner alone."""
    for each in reversed([folder, *folder.parents]):
        if not each.exists():
            each.mkdir(mode=0o700, exist_ok=True)


def sync_folder(folder: Path) -> None:
    """Have the names in the folder on disk, not only the files behind them."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
