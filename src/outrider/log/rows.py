"""Entries as rows of the event table: each with a checksum, because SQLite does not notice a flipped bit."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

from outrider.errors import DamagedLogError, NewerLogError
from outrider.log.entries import Record, decode, decode_if_known

Row: TypeAlias = tuple[int, int, float, str, bytes, int]
"""Session, seq, time, kind, body, checksum."""

LAST_SEQ = 2**53
INSERT = "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?)"
_SELECT = "SELECT session, seq, time, kind, body, checksum FROM event"


def row(session: int, seq: int, time: float, kind: str, body: bytes) -> Row:
    """A row that is whole."""
    time += 0.0  # the zero with a sign does not come back as such
    return session, seq, time, kind, body, checksum(session, seq, time, kind, body)


def checksum(session: int, seq: int, time: float, kind: str, body: bytes) -> int:
    """Over all that matters, so that a row cannot pass for another either."""
    return zlib.crc32(body, zlib.crc32(f"{session}:{seq}:{time!r}:{kind}:".encode(errors="surrogateescape")))


def is_whole(row: tuple[Any, ...]) -> bool:
    """Whether it is a row as it was written; in a damaged file anything may stand in any place."""
    session, seq, time, kind, body, expected = row
    if not isinstance(session, int) or not isinstance(seq, int):
        return False
    if not isinstance(time, float) or not isinstance(kind, str) or not isinstance(body, bytes):
        return False
    return bool(checksum(session, seq, time, kind, body) == expected)


class Extent(NamedTuple):
    """How far a session reaches: what is read is compared with it, because a damaged tree may leave rows out."""

    session: int
    last: int
    """The seq of its newest row; more may have come meanwhile."""
    gapless: bool = True
    """Whether every seq is there, as it is unless some were lost."""


def read_rows(connection: sqlite3.Connection, extent: Extent, upto: int | None = None) -> Iterator[Row]:
    """The rows of a session up to a seq, in order; raises DamagedLogError if they are not as they were written."""
    rows = connection.execute(
        f"{_SELECT} WHERE session = ? AND seq <= ? ORDER BY seq", (extent.session, LAST_SEQ if upto is None else upto)
    )
    return _in_order(rows, extent, 0, min(extent.last, upto or extent.last))


def read_newest(connection: sqlite3.Connection, extent: Extent, count: int) -> list[Row]:
    """The newest rows, the oldest of them first."""
    query = f"{_SELECT} WHERE session = ? ORDER BY seq DESC LIMIT ?"
    rows = connection.execute(query, (extent.session, count)).fetchall()[::-1]
    before = rows[0][1] - 1 if len(rows) == count and is_whole(rows[0]) else 0
    return list(_in_order(rows, extent, before, extent.last))


def _in_order(rows: Iterable[Row], extent: Extent, before: int, last: int) -> Iterator[Row]:
    seq = before
    for each in rows:
        if not is_whole(each) or each[0] != extent.session:
            raise _damaged(seq + 1)
        if each[1] <= seq or (extent.gapless and each[1] != seq + 1):
            raise _damaged(seq + 1)
        seq = each[1]
        yield each
    if seq < last:
        raise _damaged(seq + 1)


def records(rows: Iterable[Row]) -> Iterator[Record]:
    """The entries of rows. Raises NewerLogError at one that this version cannot read."""
    for _, seq, time, kind, body, _ in rows:
        try:
            yield Record(seq, time, decode(kind, body))
        except NewerLogError as error:
            raise NewerLogError(f"entry {seq}: {error}") from None


def known_records(rows: Iterable[Row]) -> Iterator[Record]:
    """The entries of rows, for looking: one that this version cannot read is unknown."""
    for _, seq, time, kind, body, _ in rows:
        yield Record(seq, time, decode_if_known(kind, body))


def _damaged(seq: int) -> DamagedLogError:
    return DamagedLogError(
        f"entry {seq} of a session is not there as it was written; `outrider sessions recover` saves what is whole"
    )
