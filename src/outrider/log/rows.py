"""Entries as rows of the event table. Each row has a checksum, because SQLite does not detect a flipped bit."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from outrider.errors import DamagedLogError, NewerLogError
from outrider.log.entries import Record, decode, decode_if_known

Row: TypeAlias = tuple[int, int, float, str, bytes, int]
"""Session, seq, time, kind, body, checksum."""

LAST_SEQ = 2**53
INSERT = "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?)"
_SELECT = "SELECT session, seq, time, kind, body, checksum FROM event"


def row(session: int, seq: int, time: float, kind: str, body: bytes) -> Row:
    """Build a row with its checksum."""
    time += 0.0  # SQLite does not preserve negative zero
    return session, seq, time, kind, body, checksum(session, seq, time, kind, body)


def checksum(session: int, seq: int, time: float, kind: str, body: bytes) -> int:
    """Return the checksum over all columns, so that one row cannot be mistaken for another."""
    return zlib.crc32(body, zlib.crc32(f"{session}:{seq}:{time!r}:{kind}:".encode(errors="surrogateescape")))


def is_intact(row: tuple[Any, ...]) -> bool:
    """Check that a row is as it was written. In a damaged file any column may hold any type."""
    session, seq, time, kind, body, expected = row
    if not isinstance(session, int) or not isinstance(seq, int):
        return False
    if not isinstance(time, float) or not isinstance(kind, str) or not isinstance(body, bytes):
        return False
    return bool(checksum(session, seq, time, kind, body) == expected)


class Extent(NamedTuple):
    """The expected rows of a session. Reads are checked against it, because a damaged B-tree may skip rows."""

    session: int
    last: int
    """The seq of the newest known row; newer rows may exist."""
    gapless: bool = True
    """Whether every seq exists. False if a recovery lost rows."""


def read_rows(connection: sqlite3.Connection, extent: Extent, upto: int | None = None) -> Iterator[Row]:
    """Iterate over the rows of a session up to a seq, in order. Raise DamagedLogError if any is missing or damaged."""
    rows = connection.execute(
        f"{_SELECT} WHERE session = ? AND seq <= ? ORDER BY seq", (extent.session, LAST_SEQ if upto is None else upto)
    )
    return _in_order(rows, extent, 0, min(extent.last, upto or extent.last))


def read_after(connection: sqlite3.Connection, extent: Extent, after: int, count: int) -> Iterator[Row]:
    """Iterate over the next rows after a seq, in order. Raise DamagedLogError if any is missing or damaged."""
    query = f"{_SELECT} WHERE session = ? AND seq > ? ORDER BY seq LIMIT ?"
    rows = connection.execute(query, (extent.session, after, count))
    return _in_order(rows, extent, after, min(extent.last, after + 1))


def read_before(connection: sqlite3.Connection, extent: Extent, before: int, count: int) -> list[Row]:
    """Return the rows before a seq, oldest first. Raise DamagedLogError if any is missing or damaged."""
    query = f"{_SELECT} WHERE session = ? AND seq < ? ORDER BY seq DESC LIMIT ?"
    rows = connection.execute(query, (extent.session, before, count)).fetchall()[::-1]
    start = rows[0][1] - 1 if len(rows) == count and is_intact(rows[0]) else 0
    return list(_in_order(rows, extent, start, min(extent.last, before - 1) if extent.gapless else 0))


def read_row(connection: sqlite3.Connection, extent: Extent, seq: int) -> Row | None:
    """Return one row, or None if it does not exist."""
    found: Row | None = connection.execute(f"{_SELECT} WHERE session = ? AND seq = ?", (extent.session, seq)).fetchone()
    if found is not None and not is_intact(found):
        raise _damaged(seq)
    return found


def read_kinds(connection: sqlite3.Connection, extent: Extent, kinds: Sequence[str]) -> list[Row]:
    """Return the intact rows of these kinds, in order."""
    query = f"{_SELECT} WHERE session = ? AND kind IN ({', '.join('?' for _ in kinds)}) ORDER BY seq"
    return [each for each in connection.execute(query, (extent.session, *kinds)) if is_intact(each)]


def read_newest(connection: sqlite3.Connection, extent: Extent, count: int) -> list[Row]:
    """Return the newest rows, oldest first."""
    query = f"{_SELECT} WHERE session = ? ORDER BY seq DESC LIMIT ?"
    rows = connection.execute(query, (extent.session, count)).fetchall()[::-1]
    before = rows[0][1] - 1 if len(rows) == count and is_intact(rows[0]) else 0
    return list(_in_order(rows, extent, before, extent.last))


def _in_order(rows: Iterable[Row], extent: Extent, before: int, last: int) -> Iterator[Row]:
    seq = before
    for each in rows:
        if not is_intact(each) or each[0] != extent.session:
            raise _damaged(seq + 1)
        if each[1] <= seq or (extent.gapless and each[1] != seq + 1):
            raise _damaged(seq + 1)
        seq = each[1]
        yield each
    if seq < last:
        raise _damaged(seq + 1)


def records(rows: Iterable[Row]) -> Iterator[Record]:
    """Decode rows. Raise NewerLogError at an entry that this version cannot read."""
    for _, seq, time, kind, body, _ in rows:
        try:
            yield Record(seq, time, decode(kind, body))
        except NewerLogError as error:
            raise NewerLogError(f"entry {seq}: {error}") from None


def known_records(rows: Iterable[Row]) -> Iterator[Record]:
    """Decode rows for display. An entry that this version cannot read becomes `UnknownEntry`."""
    for _, seq, time, kind, body, _ in rows:
        yield Record(seq, time, decode_if_known(kind, body))


def _damaged(seq: int) -> DamagedLogError:
    return DamagedLogError(
        f"entry {seq} of a session is missing or damaged; `outrider sessions recover` saves the intact entries"
    )
