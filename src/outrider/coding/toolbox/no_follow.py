"""Open files and folders without following symbolic links.

A path is resolved and approved first. If a link is swapped in afterwards, opening the path by its name would follow the
link. So the path is walked one folder at a time, each opened relative to the one above, and a link is an error (ELOOP).
This is what `openat2` with RESOLVE_NO_SYMLINKS does; the walk works on every POSIX system and needs no foreign
function. Windows has no such calls: there, files are opened by their names.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

LONGEST_PATH = 4096

CAN_WALK = os.open in os.supports_dir_fd
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
# O_PATH needs no permission to list a folder, as ordinary opening does not.
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | _NO_FOLLOW


def reference(handle: int) -> str:
    """Return a path by which a process that has inherited a descriptor opens its file; "" if the system has none."""
    link = f"/proc/self/fd/{handle}"
    return link if os.path.exists(link) else ""


class Folder:
    """An open folder. Names are relative to it, so that its path does not matter any more."""

    def __init__(self, path: Path, handle: int | None) -> None:
        self._path = path
        self._handle = handle

    @property
    def reference(self) -> str:
        """A path by which a child process reaches this folder itself; its plain path where the system has none."""
        return (reference(self._handle) if self._handle is not None else "") or str(self._path)

    def open(self, name: str, flags: int, mode: int = 0o666) -> int:
        """Open a file in the folder and return its descriptor. Raises OSError, with ELOOP for a link."""
        return os.open(self._named(name), flags | _NO_FOLLOW, mode, dir_fd=self._handle)

    def status(self, name: str) -> os.stat_result:
        return os.stat(self._named(name), dir_fd=self._handle, follow_symlinks=False)

    def replace(self, old: str, new: str) -> None:
        os.replace(self._named(old), self._named(new), src_dir_fd=self._handle, dst_dir_fd=self._handle)

    def remove(self, name: str) -> None:
        """Remove a file in the folder, if it is there."""
        try:
            os.unlink(self._named(name), dir_fd=self._handle)
        except FileNotFoundError:
            return

    def link_target(self, name: str) -> str:
        return os.readlink(self._named(name), dir_fd=self._handle)

    def make_link(self, name: str, target: str) -> None:
        os.symlink(target, self._named(name), dir_fd=self._handle)

    def make_folder(self, name: str) -> None:
        os.mkdir(self._named(name), dir_fd=self._handle)

    def remove_folder(self, name: str) -> None:
        os.rmdir(self._named(name), dir_fd=self._handle)

    def set_folder_mode(self, name: str, mode: int) -> None:
        if self._handle is None:
            os.chmod(self._named(name), mode)
            return
        handle = self.open(name, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fchmod(handle, mode)
        finally:
            os.close(handle)

    def names(self, most: int) -> list[str]:
        """Return the names in the folder, at most so many."""
        if self._handle is None:
            return os.listdir(self._path)[:most]
        handle = self.open(".", os.O_RDONLY)
        try:
            with os.scandir(handle) as entries:
                return [entry.name for entry in islice(entries, most)]
        finally:
            os.close(handle)

    def sync(self) -> None:
        """Flush the entries of the folder to disk."""
        if self._handle is not None:
            handle = self.open(".", os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def _named(self, name: str) -> str:
        return name if self._handle is not None else str(self._path / name)


@contextmanager
def opened_folder(path: Path, *, create: bool = False) -> Iterator[Folder]:
    """Open a folder by its resolved, absolute path. With `create`, missing folders are created. Raises OSError."""
    if not CAN_WALK:
        if create:
            path.mkdir(parents=True, exist_ok=True)
        yield Folder(path, None)
        return
    handle = _walk(path, create)
    try:
        yield Folder(path, handle)
    finally:
        os.close(handle)


def _walk(path: Path, create: bool) -> int:
    if len(os.fsencode(path)) >= LONGEST_PATH:  # other programs could not open it by its name
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    handle = os.open(path.anchor, _FOLDER)
    for name in path.parts[1:]:
        above = handle
        try:
            handle = _step(name, above, create)
        finally:
            os.close(above)
    return handle


def _step(name: str, above: int, create: bool) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=above)
    except FileNotFoundError:
        if not create:
            raise
    except NotADirectoryError:
        if stat.S_ISLNK(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
        raise
    with suppress(FileExistsError):  # another program was faster; a link in its place is refused below
        os.mkdir(name, dir_fd=above)
    return os.open(name, _FOLDER, dir_fd=above)
