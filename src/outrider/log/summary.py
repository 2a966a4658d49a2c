"""A session in one line: what a list of sessions shows."""

from __future__ import annotations

import sqlite3
from typing import Any

import msgspec

from outrider.errors import DamagedLogError
from outrider.log.entries import Settings
from outrider.log.holder import Holder
from outrider.messages import Usage

_COLUMNS = (
    "number, id, parent, title, model, settings, created, updated, last, turns, size, input_tokens, "
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
    settings: Settings
    fence: int
    beat: int
    beaten: float


def find(connection: sqlite3.Connection, condition: str, *values: Any) -> list[SessionRow]:
    """The sessions for which an SQL condition holds, with ORDER BY and LIMIT if they are wanted."""
    return [_read(row) for row in connection.execute(f"SELECT {_COLUMNS} FROM session WHERE {condition}", values)]


def _read(row: tuple[Any, ...]) -> SessionRow:
    number, name, parent, title, model, settings, created, updated, last, turns, size, *usage = row[:17]
    holder, fence, beat, beaten = row[17:]
    try:
        summary = Summary(
            name,
            title,
            model,
            created,
            updated,
            turns,
            Usage(*usage),
            size,
            last,
            parent,
            msgspec.json.decode(holder, type=Holder) if holder else None,
        )
        return SessionRow(number, summary, msgspec.json.decode(settings, type=Settings), fence, beat, beaten)
    except (msgspec.DecodeError, ValueError, TypeError) as error:
        raise DamagedLogError(
            f"the list of sessions is damaged ({error}); `outrider sessions recover` saves what is whole"
        ) from None
