"""The contents of files in snapshots of working folders, each stored once under its SHA-256, for the owner alone.

Beside them are lists of changed files, to which the `SnapshotEntry` of a session refers.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from stat import S_IFMT, S_IMODE, S_ISDIR, S_ISLNK, S_ISREG

import msgspec

from outrider.errors import LogError
from outrider.filesystem import make_private, sync_folder
from outrider.log.entries import SnapshotEntry
from outrider.log.rows import decode_if_known

REFRESH_SECONDS = 900.0
"""The age from which a file that is used again gets a new time, so that the cleanup sees it as new."""


class FileState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A file, a link or a folder in a snapshot."""

    stamp: tuple[int, int, int, int, int]
    """Mode, size, mtime, inode and ctime. A file with the same stamp is not read again. A folder has its mode only."""
    content: bytes = b""
    """The SHA-256 of a file, in bytes, or the target of a link. Empty for a file whose content was not kept."""

    @property
    def mode(self) -> int:
        """The type and the permissions."""
        return self.stamp[0]

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return S_ISREG(self.mode)

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return S_ISDIR(self.mode)

    @property
    def is_kept(self) -> bool:
        """Whether it can be restored."""
        return bool(self.content) or not self.is_file

    def equals(self, other: FileState | None) -> bool:
        """Return whether both have the same type, permissions and content."""
        if other is None or S_IFMT(self.mode) != S_IFMT(other.mode):
            return False
        if not S_ISLNK(self.mode) and S_IMODE(self.mode) != S_IMODE(other.mode):
            return False
        if not self.is_kept or not other.is_kept:
            return self.stamp[1:3] == other.stamp[1:3]  # size and mtime are all that is known
        return self.content == other.content


Changes = dict[str, FileState | None]
"""The changed files by their paths from the folder; None for one that is gone."""

_Listed = list[tuple[bytes, FileState | None]]
_decoder = msgspec.msgpack.Decoder(_Listed)


class SnapshotStore:
    """The store in the folder of a log. Its methods raise LogError, with what to do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, data: bytes) -> bytes:
        """Store bytes if they are new, and return their SHA-256."""
        digest = hashlib.sha256(data).digest()
        path = self._path(digest.hex())
        try:
            if not _refreshed(path, len(data)):
                self._write(path, data)
        except OSError as error:
            raise LogError(f"the snapshot store {self.folder} cannot be written: {error.strerror}") from None
        return digest

    def read(self, digest: bytes) -> bytes:
        """Return the bytes with this SHA-256."""
        try:
            data = Path(self._path(digest.hex())).read_bytes()
        except OSError:
            data = b""
        if hashlib.sha256(data).digest() != digest:
            raise LogError(f"the content {digest.hex()[:12]} of a file is missing or damaged in {self.folder}")
        return data

    def put_changes(self, changes: Changes) -> str:
        """Store a list of changed files, and return its name. It is on disk when this returns."""
        listed: _Listed = [(os.fsencode(path), state) for path, state in changes.items()]
        name = self.put(msgspec.msgpack.encode(listed)).hex()
        with suppress(OSError):
            handle = os.open(self._path(name), os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
            sync_folder(Path(self._path(name)).parent)
        return name

    def changes(self, name: str) -> Changes:
        """Return a stored list of changed files. The name may come from an import, which is not trusted."""
        if not name:
            return {}
        try:
            listed = _decoder.decode(self.read(bytes.fromhex(name)))
        except (ValueError, msgspec.MsgspecError):
            raise LogError(f"the list {name[:12]!r} of a snapshot is damaged") from None
        return {os.fsdecode(path): state for path, state in listed if _is_inside(path)}

    def referenced(self, name: str) -> set[str]:
        """Return the names of the contents to which a list refers."""
        try:
            states = self.changes(name).values()
        except LogError:
            return set()
        return {state.content.hex() for state in states if state and state.is_file and state.content}

    def referenced_by(self, bodies: Iterable[bytes]) -> set[str]:
        """Return the names of what snapshots refer to, given the bodies of their entries."""
        entries = (decode_if_known(SnapshotEntry.kind, body) for body in bodies)
        lists = {entry.changes for entry in entries if isinstance(entry, SnapshotEntry)} - {""}
        return lists.union(*map(self.referenced, lists))

    def _write(self, path: str, data: bytes) -> None:
        # Written in place: a kill leaves a file with too few bytes, which the next `put` replaces.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        try:
            handle = os.open(path, flags, 0o600)
        except FileNotFoundError:
            make_private(Path(path).parent)
            handle = os.open(path, flags, 0o600)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(handle, view) :]
        finally:
            os.close(handle)

    def _path(self, name: str) -> str:
        return f"{self.folder}/{name[:2]}/{name}"


def _is_inside(path: bytes) -> bool:
    return b"\0" not in path and not {b"", b".", b"..", b".git"}.intersection(path.split(b"/"))


def _refreshed(path: str, size: int) -> bool:
    """Return whether the file exists whole. If it is old, renew its time."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return False
    if status.st_size != size:
        return False
    if abs(time.time() - status.st_mtime) > REFRESH_SECONDS:
        os.utime(path)
    return True
