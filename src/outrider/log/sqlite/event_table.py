"""The table of entries in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import islice

from outrider.log.backend import ROW
from outrider.log.rows import LAST_SEQ, Extent, Row, damaged_entry, in_order, is_intact

INSERT = "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?)"
_SELECT = f"SELECT {ROW} FROM event"


def read_rows(connection: sqlite3.Connection, extent: Extent, upto: int | None = None) -> Iterator[Row]:
    """Iterate over the rows of a session up to a seq, in order. Raise DamagedLogError if any is missing or damaged."""
    rows = connection.execute(
        f"{_SELECT} WHERE session = ? AND seq <= ? ORDER BY seq", (extent.session, LAST_SEQ if upto is None else upto)
    )
    return in_order(rows, extent, 0, min(extent.last, upto or extent.last))


def read_after(connection: sqlite3.Connection, extent: Extent, after: int, count: int) -> Iterator[Row]:
    """Iterate over the next rows after a seq, in order. Raise DamagedLogError if any is missing or damaged."""
    query = f"{_SELECT} WHERE session = ? AND seq > ? ORDER BY seq LIMIT ?"
    rows = connection.execute(query, (extent.session, after, count))
    return in_order(rows, extent, after, min(extent.last, after + 1))


def read_row(connection: sqlite3.Connection, session: int, seq: int) -> Row | None:
    """Return one row, or None if it does not exist."""
    found: Row | None = connection.execute(f"{_SELECT} WHERE session = ? AND seq = ?", (session, seq)).fetchone()
    if found is not None and not is_intact(found):
        raise damaged_entry(seq)
    return found


def read_kinds(
    connection: sqlite3.Connection, extent: Extent, kinds: Sequence[str], after: int = 0, count: int = -1
) -> list[Row]:
    """Return the intact rows of these kinds after a seq, in order; at most `count` if it is given."""
    named = ", ".join("?" for _ in kinds)
    query = f"{_SELECT} WHERE session = ? AND seq > ? AND kind IN ({named}) ORDER BY seq"
    rows = (each for each in connection.execute(query, (extent.session, after, *kinds)) if is_intact(each))
    return list(rows if count < 0 else islice(rows, count))
