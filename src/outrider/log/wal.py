"""The write-ahead log of the SQLite file: whether commits at its end can no longer be read.

SQLite reads it up to the first frame whose checksum is wrong, and takes the rest for a write that was cut off. That is
right for one commit, the last one: each commit is on disk before the next begins. Where two or more follow, a part of
the file has been damaged, and what was acknowledged would silently be gone.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

from outrider.log.descriptors import peek

_HEADER, _FRAME = 32, 24


def lost_commits(path: Path) -> int:
    """How many commits follow that SQLite does not see, more than one being damage. A connection must be reading."""
    try:
        # Without a buffer: what is read twice has to be read twice. SQLite has no locks on this one of its files.
        with path.with_name(f"{path.name}-wal").open("rb", buffering=0) as wal:
            header = wal.read(_HEADER)
            if len(header) == _HEADER and not _is_whole(header):
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
    seen = _frames_seen(shm, salts)  # once more: others may have been writing meanwhile
    return 0 if seen is None else sum(frame > seen for frame in commits)


def _commits_without_header(wal: BinaryIO, path: Path) -> int:
    """Commits of the newest round, where SQLite sees none at all because it cannot read the header."""
    size = struct.unpack(">H", peek(path, 2, offset=16))[0]
    wal.seek(_HEADER)
    first = wal.read(_FRAME)
    return len(_commits_from(wal, 0, 65536 if size == 1 else size or 4096, first[8:16]))


def _is_whole(header: bytes) -> bool:
    """Whether the checksum at the end of the header is right."""
    order = ">" if header[3] & 1 else "<"
    one = two = 0
    for first, second in struct.iter_unpack(f"{order}II", header[:24]):
        one = (one + first + two) & 0xFFFFFFFF
        two = (two + second + one) & 0xFFFFFFFF
    return struct.unpack(">II", header[24:32]) == (one, two)


def _frames_seen(shm: Path, salts: bytes) -> int | None:
    """How many frames SQLite sees, by the index that its connections share; None while that is being changed."""
    index = peek(shm, 96)
    if index[:48] != index[48:] or index[32:40] != salts:
        return None
    frames: int = struct.unpack_from("=I", index, 16)[0]
    return frames


def _commits_from(wal: BinaryIO, frame: int, page_size: int, salts: bytes) -> list[int]:
    """The numbers of the frames after this one that end a commit and belong to this round of the log."""
    found: list[int] = []
    while True:
        wal.seek(_HEADER + frame * (_FRAME + page_size))
        head = wal.read(_FRAME)
        if len(head) < _FRAME:
            return found
        frame += 1
        if head[8:16] == salts and head[4:8] != b"\0\0\0\0":
            found.append(frame)
