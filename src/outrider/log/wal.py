"""Detect lost commits at the end of SQLite's write-ahead log.

SQLite reads the log up to the first frame with a wrong checksum, and treats the rest as an interrupted write. That is
right for the last commit only, because each commit is on disk before the next begins. If two or more commits follow,
the file is damaged, and SQLite would silently drop acknowledged commits.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

from outrider.log.descriptors import peek

_HEADER, _FRAME = 32, 24


def lost_commits(path: Path) -> int:
    """Return the number of commits that SQLite does not see, or 0 if at most one. A connection must be reading."""
    try:
        # Unbuffered, because some parts must be read twice. SQLite holds no locks on this file.
        with path.with_name(f"{path.name}-wal").open("rb", buffering=0) as wal:
            header = wal.read(_HEADER)
            if len(header) == _HEADER and not _is_valid(header):
                lost = _commits_without_header(wal, path)
            else:
                lost = _commits_not_seen(wal, path.with_name(f"{path.name}-shm"), header)
    except (OSError, struct.error):
        return 0
    return lost if lost > 1 else 0


def _commits_not_seen(wal: BinaryIO, shm: Path, header: bytes) -> int:
    size, salts = struct.unpack_from(">I", header, 8)[0], header[16:24]
    start = _frames_seen(shm, salts)
    if start is None:
        return 0
    commits = _commits_from(wal, start, size, salts)
    seen = _frames_seen(shm, salts)  # again: another process may have written meanwhile
    return 0 if seen is None else sum(frame > seen for frame in commits)


def _commits_without_header(wal: BinaryIO, path: Path) -> int:
    """Count the commits of the newest round. Without a valid header SQLite sees none of them."""
    size = struct.unpack(">H", peek(path, 2, offset=16))[0]
    wal.seek(_HEADER)
    first = wal.read(_FRAME)
    return len(_commits_from(wal, 0, 65536 if size == 1 else size or 4096, first[8:16]))


def _is_valid(header: bytes) -> bool:
    """Verify the checksum at the end of the header."""
    order = ">" if header[3] & 1 else "<"
    one = two = 0
    for first, second in struct.iter_unpack(f"{order}II", header[:24]):
        one = (one + first + two) & 0xFFFFFFFF
        two = (two + second + one) & 0xFFFFFFFF
    return struct.unpack(">II", header[24:32]) == (one, two)


def _frames_seen(shm: Path, salts: bytes) -> int | None:
    """Return the number of frames in the shared index of SQLite's connections, or None while it is changing."""
    index = peek(shm, 96)
    if index[:48] != index[48:] or index[32:40] != salts:
        return None
    frames: int = struct.unpack_from("=I", index, 16)[0]
    return frames


def _commits_from(wal: BinaryIO, frame: int, page_size: int, salts: bytes) -> list[int]:
    """Return the numbers of the later frames that end a commit of this round of the log."""
    found: list[int] = []
    while True:
        wal.seek(_HEADER + frame * (_FRAME + page_size))
        head = wal.read(_FRAME)
        if len(head) < _FRAME:
            return found
        frame += 1
        if head[8:16] == salts and head[4:8] != b"\0\0\0\0":
            found.append(frame)
