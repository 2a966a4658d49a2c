"""Folders in memory, for tests with many files or many commits."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

MEMORY = Path("/dev/shm")


def memory_folder(needed: int = 0) -> Path | None:
    """Return the folder in which new ones are in memory, if there is one with so many bytes free."""
    try:
        return MEMORY if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= needed else None
    except OSError:
        return None
