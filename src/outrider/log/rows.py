"""Entries as rows of the event table: each with a checksum, because SQLite does not notice a flipped bit."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from outrider.errors import DamagedLogError
from outrider.log.entries import Record, decode

Row: TypeAlias = tuple[int, int, float, str, bytes, int]
"""Session, seq, time, kind, body, checksum."""

INSERT = "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?)"
_SELECT = "SELECT session, seq, time, kind, body, checksum FROM event"


def row(session: int, seq: int, time: float, kind: str, body: bytes) -> Row:
    """A row that is whole."""
    return session, seq, time, kind, body, checksum(session, seq, time, kind, body)


def checksum(session: int, seq: int, time: float, kind: str, body: bytes) -> int:
    """Over all that matters, so that a row cannot pass for another either."""
    return zlib.crc32(body, zlib.crc32(f"{session}:{seq}:{time!r}:{kind}:".encode(errors="surrogateescape")))


def is_whole(row: tuple[Any, ...]) -> bool:
    """Whether it is a row as it was written."""
    session, seq, time, kind, body, expected = row
    return isinstance(kind, str) and isinstance(body, bytes) and checksum(session, seq, time, kind, body) == expected


def read_rows(connection: sqlite3.Connection, session: int, after: int = 0, upto: int | None = None) -> Iterator[Row]:
    """The rows after one seq and up to another, in order; raises DamagedLogError at one that is not whole."""
    rows = connection.execute(
        f"{_SELECT} WHERE session = ? AND seq > ? AND seq <= ? ORDER BY seq",
        (session, after, 2**62 if upto is None else upto),
    )
    return map(_checked, rows)


def read_newest(connection: sqlite3.Connection, session: int, count: int, before: int | None = None) -> list[Row]:
    """The newest rows before a seq, the oldest of them first."""
    rows = connection.execute(
        f"{_SELECT} WHERE session = ? AND seq < ? ORDER BY seq DESC LIMIT ?",
        (session, 2**62 if before is None else before, count),
    )
    return [_checked(each) for each in rows][::-1]


def records(rows: Iterable[Row]) -> Iterator[Record]:
    """The entries of rows."""
    for _, seq, time, kind, body, _ in rows:
        try:
            yield Record(seq, time, decode(kind, body))
        except DamagedLogError as error:
            raise DamagedLogError(f"event {seq}: {error}") from None


def _checked(row: Row) -> Row:
    if not is_whole(row):
        raise DamagedLogError(
            f"event {row[1]} of a session is not as it was written; `outrider sessions recover` saves what is whole"
        )
    return row
