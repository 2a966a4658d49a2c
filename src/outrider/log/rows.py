"""Entries as rows of the event table. Each row has a checksum, because databases do not detect every flipped bit."""

from __future__ import annotations

from binascii import crc32
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import msgspec

from outrider.errors import DamagedLogError, NewerLogError
from outrider.log.entries import Record
from outrider.log.entry_codec import decode, decode_if_known

Row: TypeAlias = tuple[int, int, float, str, bytes, int]
"""Session, seq, time, kind, body, checksum. The upper half of the checksum is the link to the entry before."""

_TYPES = int, int, float, str, bytes, int
LAST_SEQ = 2**53


def row(session: int, seq: int, time: float, kind: str, body: bytes, link: int = 0) -> Row:
    """Build a row with its checksum and its link, see `log/chain.py`; 0 for an entry that is not chained."""
    time += 0.0  # SQLite does not preserve negative zero
    return session, seq, time, kind, body, checksum(session, seq, time, kind, body) | link << 32


def checksum(session: int, seq: int, time: float, kind: str, body: bytes) -> int:
    """Return the checksum over all columns, so that one row cannot be mistaken for another."""
    return crc32(body, crc32(f"{session}:{seq}:{time!r}:{kind}:".encode(errors="surrogateescape")))


def is_intact(row: tuple[Any, ...]) -> bool:
    """Check that a row is as it was written. In a damaged file any column may hold any type."""
    if tuple(map(type, row)) != _TYPES:
        return False
    return bool(checksum(*row[:5]) == row[5] & 0xFFFFFFFF)


def link_of(row: Row) -> int:
    """Return the link of an intact row; 0 if it is not chained."""
    return row[5] >> 32


class Extent(msgspec.Struct, frozen=True):
    """The expected rows of a session. Reads are checked against it, because a damaged B-tree may skip rows."""

    session: int
    last: int
    """The seq of the newest known row; newer rows may exist."""
    gapless: bool = True
    """Whether every seq exists. False if a recovery lost rows."""


def in_order(rows: Iterable[Row], extent: Extent, before: int, last: int) -> Iterator[Row]:
    """Yield the rows after `before`. Raise DamagedLogError if one up to `last` is missing, or if any is damaged.

    In a session that lost rows, only its newest must be there: `last` may be one of the lost.
    """
    seq = before
    for each in rows:
        if not is_intact(each) or each[0] != extent.session:
            raise damaged_entry(seq + 1)
        if each[1] <= seq or (extent.gapless and each[1] != seq + 1):
            raise damaged_entry(seq + 1)
        seq = each[1]
        yield each
    if seq < last and (extent.gapless or last >= extent.last):
        raise damaged_entry(seq + 1)


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


def damaged_entry(seq: int) -> DamagedLogError:
    """Return an error that names the entry."""
    return DamagedLogError(
        f"entry {seq} of a session is missing or damaged; `outrider sessions recover` saves the intact entries"
    )
