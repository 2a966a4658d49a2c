"""A session in one line: what a list of sessions shows."""

from __future__ import annotations

import sqlite3
import time
from functools import cache
from typing import Any

import msgspec

from outrider.conversation.messages import Usage
from outrider.errors import DamagedLogError
from outrider.log.entries import SessionSettings, SessionStarted
from outrider.log.holder import Holder
from outrider.log.rows import Extent

_COLUMNS = (
    "number, id, parent, title, model, settings, created, updated, last, turns, size, entries, input_tokens, "
    "output_tokens, cached_tokens, cache_write_tokens, reasoning_tokens, cost, holder, fence, beat, beaten"
)


class Summary(msgspec.Struct, frozen=True):
    """What is known of a session without reading it."""

    id: str
    title: str
    """The beginning of what was first said, or the name that it was given."""
    model: str
    created: float
    updated: float
    turns: int
    """How often a model answered."""
    usage: Usage
    size: int
    """Bytes of its entries and of its files."""
    last: int
    """The number of its newest entry."""
    parent: str = ""
    """The session that sent it out, if it is a sub-agent's."""
    holder: Holder | None = None
    """Who has it open, if anybody has, or had and did not close it."""


class SessionRow(msgspec.Struct, frozen=True):
    """A session as it stands in the table."""

    number: int
    summary: Summary
    settings: SessionSettings
    entries: int
    """How many entries it has."""
    fence: int
    beat: int
    beaten: float

    @property
    def extent(self) -> Extent:
        """How far it reaches."""
        return Extent(self.number, self.summary.last, self.entries == self.summary.last)


def find(connection: sqlite3.Connection, condition: str, *values: Any) -> list[SessionRow]:
    """The sessions for which an SQL condition holds, with ORDER BY and LIMIT if they are wanted."""
    return [_read(row) for row in connection.execute(f"SELECT {_COLUMNS} FROM session WHERE {condition}", values)]


def insert(connection: sqlite3.Connection, began: SessionStarted, holder: str = "") -> int:
    """Put a new session into the table, as the one that was opened last; its number."""
    now = time.time()
    cursor = connection.execute(
        "INSERT INTO session (id, parent, created, updated, opened, holder, fence, beaten) "
        "VALUES (?, ?, ?, ?, (SELECT coalesce(max(opened), 0) + 1 FROM session), ?, 1, ?)",
        (began.session, began.parent, now, now, holder, now),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


class _Columns(msgspec.Struct, frozen=True, array_like=True):
    """A row as it should be; a damaged one may have anything in any place."""

    number: int
    id: str
    parent: str
    title: str
    model: str
    settings: str
    created: float
    updated: float
    last: int
    turns: int
    size: int
    entries: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    cost: float | None
    holder: str
    fence: int
    beat: int
    beaten: float


def _read(row: tuple[Any, ...]) -> SessionRow:
    try:
        of = _columns().decode(msgspec.msgpack.encode(row))
        settings = msgspec.json.decode(of.settings, type=SessionSettings)
        return SessionRow(of.number, _summary(of), settings, of.entries, of.fence, of.beat, of.beaten)
    except (msgspec.MsgspecError, ValueError, TypeError, OverflowError) as error:
        raise DamagedLogError(
            f"the list of sessions is damaged ({error}); `outrider sessions recover` saves what is whole"
        ) from None


def _summary(of: _Columns) -> Summary:
    usage = Usage(
        of.input_tokens, of.output_tokens, of.cached_tokens, of.cache_write_tokens, of.reasoning_tokens, of.cost
    )
    holder = msgspec.json.decode(of.holder, type=Holder) if of.holder else None
    return Summary(
        of.id, of.title, of.model, of.created, of.updated, of.turns, usage, of.size, of.last, of.parent, holder
    )


@cache  # made when the first list is read
def _columns() -> msgspec.msgpack.Decoder[_Columns]:
    return msgspec.msgpack.Decoder(_Columns)
