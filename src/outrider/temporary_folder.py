"""Temporary folders that no ended process leaves behind: each is locked, and those without a lock are removed."""

from __future__ import annotations

import os
import shutil
import weakref
from pathlib import Path
from tempfile import gettempdir

PREFIX = "outrider-tmp-"
_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


def new_path() -> Path:
    """Return a path for a temporary folder, which does not exist yet."""
    return Path(gettempdir()).resolve() / f"{PREFIX}{os.urandom(8).hex()}"


class TemporaryFolder:
    """A folder for the owner alone. It is removed with this object, or at the end of the process.

    The kernel drops the lock of a process however it ends. The next folder that is made beside it removes it.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or new_path()
        remove_abandoned(self.path.parent)
        self._handle = _make_locked(self.path)
        self._remove = weakref.finalize(self, _remove, self.path, self._handle, os.getpid())

    def remove(self) -> None:
        """Remove the folder and all that is in it."""
        self._remove()


def remove_abandoned(above: Path) -> None:
    """Remove the temporary folders of ended processes of this user."""
    if os.name != "posix":
        return
    try:
        with os.scandir(above) as entries:
            found = [each.path for each in entries if each.name.startswith(PREFIX)]
    except OSError:
        return
    for path in found:
        _remove_if_abandoned(path)


def _remove_if_abandoned(path: str) -> None:
    import fcntl

    try:
        handle = os.open(path, _DIRECTORY)
    except OSError:
        return
    try:
        if os.fstat(handle).st_uid == os.getuid():
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    except OSError:  # in use, or a file system without locks
        pass
    finally:
        os.close(handle)


def _make_locked(path: Path) -> int:
    """Make a folder and lock it. Another process may remove it in the moment before it is locked: make it again."""
    if os.name != "posix":
        path.mkdir(mode=0o700)
        return -1
    import fcntl

    while True:
        path.mkdir(mode=0o700)
        try:
            handle = os.open(path, _DIRECTORY)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:  # a file system without locks: nobody removes it either
            return handle
        try:
            if os.path.samestat(os.fstat(handle), os.lstat(path)):
                return handle
        except FileNotFoundError:
            pass
        os.close(handle)


def _remove(path: Path, handle: int, owner: int) -> None:
    if os.getpid() != owner:  # a forked process ends without the folder of its parent
        return
    shutil.rmtree(path, ignore_errors=True)
    if handle >= 0:
        os.close(handle)
