"""Create private folders and sync them to disk."""

from __future__ import annotations

import os
from pathlib import Path


def make_private(folder: Path) -> None:
    """Create the folder and its missing parents with owner-only access."""
    for each in reversed([folder, *folder.parents]):
        if not each.exists():
            each.mkdir(mode=0o700, exist_ok=True)


def sync_folder(folder: Path) -> None:
    """Flush the folder's entries to disk, so that file names survive a power failure."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
