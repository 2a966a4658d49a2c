"""Read files that SQLite has locked.

POSIX drops all locks of a process on a file when the process closes any descriptor of that file. Another process would
then find no lock, and truncate SQLite's shared memory while this process uses it, which crashes this process. So
descriptors opened here stay open for the life of the process.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

_guard = threading.Lock()
_kept: list[int] = []


def peek(path: Path, size: int, offset: int = 0) -> bytes:
    """Read bytes of a file that SQLite may have locked. Raise OSError if that fails."""
    with _guard:
        return os.pread(_descriptor(path), size, offset)


def kept_descriptor(path: Path) -> int:
    """Return a descriptor of a file that SQLite may have locked. It must not be closed. Raise OSError."""
    with _guard:
        return _descriptor(path)


def _descriptor(path: Path) -> int:
    wanted = os.stat(path)
    for descriptor in list(_kept):
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino) == (wanted.st_dev, wanted.st_ino):
            return descriptor
        if status.st_nlink == 0:  # the file was deleted, so its locks no longer matter
            _kept.remove(descriptor)
            os.close(descriptor)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    _kept.append(descriptor)
    return descriptor
