"""Looking into files that SQLite has locked.

The locks of a process on a file are gone as soon as it closes any descriptor of that file, also one that has nothing to
do with them. Whoever comes next would then believe that nobody is there, and make SQLite's shared memory anew under a
process that uses it, which dies of that. So a descriptor that was opened here stays open: it belongs to the process.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

_guard = threading.Lock()
_kept: list[int] = []


def peek(path: Path, size: int, offset: int = 0) -> bytes:
    """Bytes of a file that SQLite may have locked. Raises OSError."""
    with _guard:
        return os.pread(_descriptor(path), size, offset)


def _descriptor(path: Path) -> int:
    wanted = os.stat(path)
    for descriptor in list(_kept):
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino) == (wanted.st_dev, wanted.st_ino):
            return descriptor
        if status.st_nlink == 0:  # nobody can find the file any more, and nobody need fear for its locks
            _kept.remove(descriptor)
            os.close(descriptor)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    _kept.append(descriptor)
    return descriptor
