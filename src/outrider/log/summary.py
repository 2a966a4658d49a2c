"""Session summaries: one row of the session table each, as the list of sessions shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec

from outrider.conversation.usage import Usage, rounded_cost
from outrider.errors import DamagedLogError
from outrider.log.entries import SessionSettings
from outrider.log.holder import Holder
from outrider.log.rows import Extent
from outrider.struct_types import described


class Summary(msgspec.Struct, frozen=True):
    """A session's metadata, available without reading its entries."""

    id: str
    title: str
    """The beginning of the first prompt, or the title that the user set."""
    model: str
    created: float
    updated: float
    turns: int
    """The number of replies."""
    usage: Usage
    size: int
    """The size of its entries and files in bytes."""
    last: int
    """The seq of its newest entry."""
    parent: str = ""
    """For a sub-agent's session, the session that started it."""
    holder: Holder | None = None
    """The process that has it open, or that ended without closing it."""
    folder: str = ""
    """The working folder. Empty if it has none."""
    owner: str = ""
    """Whose session it is, if the program that made it said so."""
    metadata: Mapping[str, str] = {}
    """What else that program stored about it."""
    origin: str = ""
    """What made it: `chat`, `editor`, `print`, `batch` or `python`. Empty in older logs."""


class Indexable(NamedTuple):
    """A session as an index sees it: how far it goes. Much cheaper to read than its row."""

    number: int
    id: str
    last: int
    """The seq of its newest entry."""
    size: int
    entries: int

    @property
    def extent(self) -> Extent:
        """The rows that it should have."""
        return Extent(self.number, self.last, self.entries == self.last)


class SessionRow(msgspec.Struct, frozen=True):
    """A row of the session table."""

    number: int
    summary: Summary
    settings: SessionSettings
    entries: int
    """The number of its entries."""
    fence: int
    """Counts up with every holder. A write with an older fence is rejected."""
    beat: int
    """The heartbeat counter of the holder."""
    beaten: float
    """The time of the last heartbeat: by the holder's clock in SQLite, by the database's clock in Postgres."""

    @property
    def extent(self) -> Extent:
        """The rows that it should have."""
        return self.indexable.extent

    @property
    def indexable(self) -> Indexable:
        """What an index must know of it."""
        return Indexable(self.number, self.summary.id, self.summary.last, self.summary.size, self.entries)


class _Columns(msgspec.Struct, frozen=True, array_like=True):
    """The expected types of a row's columns. A damaged row may hold anything."""

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


COLUMNS = ", ".join(_Columns.__struct_fields__)
"""The columns of the session table, in the order of `session_row`."""
INDEXABLE = ", ".join(Indexable._fields)
"""Those that an index needs."""


def session_row(row: Sequence[Any]) -> SessionRow:
    """Return a row from its columns. Raise DamagedLogError if one has a wrong type."""
    try:
        columns = _decoder().decode(msgspec.msgpack.encode(row))
        settings = msgspec.json.decode(columns.settings, type=described(SessionSettings))
        return SessionRow(
            columns.number,
            _summary(columns, settings),
            settings,
            columns.entries,
            columns.fence,
            columns.beat,
            columns.beaten,
        )
    except (msgspec.MsgspecError, ValueError, TypeError, OverflowError) as error:
        raise _damaged_list(error) from None


def indexables(rows: Sequence[Sequence[Any]]) -> list[Indexable]:
    """Return sessions from their columns. Raise DamagedLogError if one has a wrong type."""
    try:
        return msgspec.convert(rows, described(list[Indexable]))
    except (msgspec.MsgspecError, OverflowError) as error:
        raise _damaged_list(error) from None


def _damaged_list(error: Exception) -> DamagedLogError:
    return DamagedLogError(
        f"the list of sessions is damaged ({error}); `outrider sessions recover` saves the intact entries"
    )


def _summary(row: _Columns, settings: SessionSettings) -> Summary:
    cost = None if row.cost is None else rounded_cost(row.cost)
    usage = Usage(
        row.input_tokens, row.output_tokens, row.cached_tokens, row.cache_write_tokens, row.reasoning_tokens, cost
    )
    holder = msgspec.json.decode(row.holder, type=described(Holder)) if row.holder else None
    return Summary(
        row.id,
        row.title,
        row.model,
        row.created,
        row.updated,
        row.turns,
        usage,
        row.size,
        row.last,
        row.parent,
        holder,
        settings.cwd or "",
        settings.owner or "",
        settings.metadata or {},
        settings.origin or "",
    )


@cache  # built on first use
def _decoder() -> msgspec.msgpack.Decoder[_Columns]:
    return msgspec.msgpack.Decoder(described(_Columns))
