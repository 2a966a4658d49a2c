"""Detect lost commits at the end of SQLite's write-ahead log.

SQLite reads the log up to the first frame with a wrong checksum, and treats the rest as an interrupted write. That is
right for the last commit only, because each commit is on disk before the next begins. If two or more commits follow,
the file is damaged, and SQLite would silently drop acknowledged commits. Only commits that continue one another count:
a writer that is killed before other connections hear of its commit leaves frames that the next writer overwrites in
part, and several such writers leave the ends of several commits.

A file that was cut off at its very end shows no such trace. So each writer keeps a tally beside it: how many frames
were committed. The tally is written after the commit is on disk and before it is acknowledged, and is not synced, so a
kill or a power failure leaves it behind the log, never ahead. It counts only for the log that it names by inode and
salts: not for a copy, and not for the next round of the log.

POSIX drops all locks of a process on a file when the process closes any descriptor of that file. Another process would
then find no lock, and truncate SQLite's shared memory while this process uses it, which crashes this process. So
descriptors of files that SQLite has locked stay open for the life of the process.
"""

from __future__ import annotations

import os
import struct
import threading
import zlib
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

_HEADER, _FRAME = 32, 24
_BLOCK = 256 * 1024
"""Bytes to read at once."""
_TALLY = struct.Struct(">4sQ8sI")
_TALLY_MARK = b"OTT1"
_CHECKSUM = struct.Struct(">I")
_FRAMES = struct.Struct("=I")


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


def lost_commits(path: Path) -> int:
    """Return the number of commits that SQLite does not see, or 0 if at most one. A connection must be reading."""
    try:
        # Unbuffered, because some parts must be read twice. SQLite holds no locks on this file.
        with path.with_name(f"{path.name}-wal").open("rb", buffering=0) as wal:
            header = wal.read(_HEADER)
            if len(header) == _HEADER and not _is_valid(header):
                size, lost = _commits_without_header(wal, path)
            else:
                size, lost = _commits_not_seen(wal, path.with_name(f"{path.name}-shm"), header)
            pairs = pairwise(lost)
            continued = any(_is_continued(wal, first, last, size, _order(header)) for first, last in pairs)
    except (OSError, struct.error):
        return 0
    return len(lost) if continued else 0


class Tally:
    """Records how many frames of the write-ahead log were committed, in a small file beside it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files: tuple[int, int, int] | None = None
        """The descriptors of the tally and of SQLite's index, and the inode of the log: they stay the same while a
        connection is open."""

    def record(self) -> None:
        """Record the commits that are on disk. Nothing is recorded without a write-ahead log, or if that fails."""
        with suppress(OSError, struct.error):
            self._files = self._files or self._open()
            tally, shm, inode = self._files
            index = os.pread(shm, 96, 0)
            if len(index) < 96 or index[:48] != index[48:]:
                return
            entry = _TALLY.pack(_TALLY_MARK, inode, index[32:40], _FRAMES.unpack_from(index, 16)[0])
            os.pwrite(tally, entry + _CHECKSUM.pack(zlib.crc32(entry)), 0)

    def _open(self) -> tuple[int, int, int]:
        shm, inode = kept_descriptor(_beside(self._path, "shm")), os.stat(_beside(self._path, "wal")).st_ino
        flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
        return os.open(_beside(self._path, "tally"), flags, 0o600), shm, inode

    def close(self) -> None:
        """Close the file. Remove it if there is no write-ahead log any more."""
        files, self._files = self._files, None
        if files is not None:
            os.close(files[0])
            if not _beside(self._path, "wal").exists():
                forget_tally(self._path)


def forget_tally(path: Path) -> None:
    """Remove the tally of a log, if there is one."""
    with suppress(OSError):
        _beside(path, "tally").unlink()


def is_cut_off(path: Path) -> bool:
    """Return whether the write-ahead log ends before a commit that was acknowledged. A connection must be reading."""
    try:
        recorded = _beside(path, "tally").read_bytes()  # before the index, which only grows within a round
        entry = recorded[: _TALLY.size]
        mark, inode, salts, frames = _TALLY.unpack(entry)
        if mark != _TALLY_MARK or recorded[_TALLY.size :] != struct.pack(">I", zlib.crc32(entry)):
            return False
        with _beside(path, "wal").open("rb", buffering=0) as wal:
            if os.fstat(wal.fileno()).st_ino != inode or wal.read(_HEADER)[16:24] != salts:
                return False
        seen = _frames_seen(_beside(path, "shm"), salts)
    except (OSError, struct.error):
        return False
    return seen is not None and seen < frames


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(f"{path.name}-{ending}")


def _commits_not_seen(wal: BinaryIO, shm: Path, header: bytes) -> tuple[int, list[int]]:
    """Return the size of a page, and the frames of commits that SQLite's connections do not see."""
    size, salts = struct.unpack_from(">I", header, 8)[0], header[16:24]
    start = _frames_seen(shm, salts)
    if start is None:
        return size, []
    commits = _commits_from(wal, start, size, salts)
    seen = _frames_seen(shm, salts)  # again: another process may have written meanwhile
    return size, [] if seen is None else [frame for frame in commits if frame > seen]


def _commits_without_header(wal: BinaryIO, path: Path) -> tuple[int, list[int]]:
    """Return the size of a page, and the commits of the newest round. Without a valid header SQLite sees none."""
    stored = struct.unpack(">H", peek(path, 2, offset=16))[0]
    size = 65536 if stored == 1 else stored or 4096
    wal.seek(_HEADER)
    first = wal.read(_FRAME)
    return size, _commits_from(wal, 0, size, first[8:16])


def _is_valid(header: bytes) -> bool:
    """Verify the checksum at the end of the header."""
    return _checksum(header[:24], _order(header)) == header[24:32]


def _order(header: bytes) -> str:
    return ">" if header[3] & 1 else "<"


def _checksum(data: bytes, order: str, before: bytes = bytes(8)) -> bytes:
    """Return SQLite's checksum of some data, which goes on from the one before."""
    one, two = struct.unpack(">II", before)
    for first, second in struct.iter_unpack(f"{order}II", data):
        one = (one + first + two) & 0xFFFFFFFF
        two = (two + second + one) & 0xFFFFFFFF
    return struct.pack(">II", one, two)


def _is_continued(wal: BinaryIO, frame: int, last: int, page_size: int, order: str) -> bool:
    """Return whether each frame up to the last one goes on from the one before it."""
    stride = _FRAME + page_size
    wal.seek(_HEADER + (frame - 1) * stride)
    before = wal.read(stride)[16:24]
    for _ in range(frame, last):
        each = wal.read(stride)
        if _checksum(each[:8] + each[_FRAME:], order, before) != each[16:24]:
            return False
        before = each[16:24]
    return True


def _frames_seen(shm: Path, salts: bytes) -> int | None:
    """Return the number of frames in the shared index of SQLite's connections, or None while it is changing."""
    index = peek(shm, 96)
    if index[:48] != index[48:] or index[32:40] != salts:
        return None
    frames: int = struct.unpack_from("=I", index, 16)[0]
    return frames


def _commits_from(wal: BinaryIO, frame: int, page_size: int, salts: bytes) -> list[int]:
    """Return the numbers of the later frames that end a commit of this round of the log.

    Megabytes of an earlier round may follow, and each session that is opened looks. So many frames are read at once.
    """
    found: list[int] = []
    stride = _FRAME + page_size
    block = memoryview(bytearray(max(1, _BLOCK // stride) * stride))
    wal.seek(_HEADER + frame * stride)
    while True:
        size = _fill(wal, block)
        for at in range(0, size - _FRAME + 1, stride):
            frame += 1
            if block[at + 8 : at + 16] == salts and any(block[at + 4 : at + 8]):
                found.append(frame)
        if size < len(block):
            return found


def _fill(file: BinaryIO, block: memoryview) -> int:
    """Read until the block is full or the file ends. Return the number of bytes."""
    size = 0
    while size < len(block) and (count := file.readinto(block[size:])):  # type: ignore[attr-defined]
        size += count
    return size
