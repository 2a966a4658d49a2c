"""What each request has used, and its sums: the tables of the usage index, whatever keeps them, and calendar days.

An imported entry may have any time, and a clock may be moved.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from outrider.conversation.usage import Usage, rounded_cost
from outrider.log.entries import AttemptFailed, CompactionEntry, MessageEntry, Record, TitleEntry
from outrider.log.rows import Row
from outrider.log.sql import IndexDatabase, IndexedUpTo, Statement, Work, take_state

N = TypeVar("N", int, float)
USED_KINDS = (MessageEntry.kind, AttemptFailed.kind, CompactionEntry.kind, TitleEntry.kind)
Dimension: TypeAlias = Literal["quarter", "model", "folder"]
"""What sums are grouped by. A quarter of an hour is the largest time that is within one day in every time zone."""
QUARTER_SECONDS = 900
_LAST_QUARTER = 2**40
"""Imported entries may have any time. No calendar has this one."""


class RequestUsage(msgspec.Struct, frozen=True):
    """One request to a model: a reply, an attempt that failed, a summary, or a title."""

    seq: int
    time: float
    kind: str
    """The kind of its entry: `message`, `attempt_failed`, `compacted` or `titled`."""
    model: str
    usage: Usage
    first_token: float | None = None
    """Seconds until the first delta, where it was measured."""
    tokens_after: int = 0
    """After a compaction, the estimated tokens of the next request."""


class _Part(msgspec.Struct, frozen=True):
    """The fields of an entry that count. The decoder skips all others."""

    usage: Usage | None = None
    model: str = ""
    first_token: float | None = None
    tokens_after: int = 0


_decode = msgspec.json.Decoder(_Part).decode
MOST = 10**12
"""Tokens, dollars and seconds of a request that count at most: an imported entry may name any number."""


def used_in(rows: Iterable[Row]) -> Iterator[RequestUsage]:
    """Iterate over the requests in rows of these kinds. Entries that cannot be decoded are left out."""
    for _, seq, when, kind, body, _ in rows:
        try:
            part = _decode(body)
        except (msgspec.MsgspecError, TypeError):
            continue
        if part.usage is not None:
            first_token = None if part.first_token is None else _bounded(part.first_token)
            yield RequestUsage(
                seq, when, kind, part.model, _plausible(part.usage), first_token, _bounded(part.tokens_after)
            )


def _plausible(usage: Usage) -> Usage:
    """Return a usage whose sums a database can keep."""
    given: dict[str, Any] = msgspec.structs.asdict(usage)
    changed = {name: _bounded(number) for name, number in given.items() if number is not None and abs(number) > MOST}
    return msgspec.structs.replace(usage, **changed) if changed else usage


def _bounded(number: N) -> N:
    return number if abs(number) <= MOST else type(number)(MOST if number > 0 else -MOST)


def context_used(newest: Sequence[Record]) -> int | None:
    """Return the tokens of the context after the newest reply or compaction."""
    for record in reversed(newest):
        match record.entry:
            case CompactionEntry(tokens_after=tokens):
                return tokens
            case MessageEntry(usage=usage) if usage and usage.input_tokens and usage.context:
                return usage.context
    return None


class UsageState(IndexedUpTo, frozen=True, array_like=True):
    """How far a session is indexed, and what it is now."""

    model: str = ""
    folder: str = ""


class UsageSums(msgspec.Struct, array_like=True):
    """What some requests have used together."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float = 0.0
    first_token: float = 0.0
    """The sum of the seconds until the first token, where they were measured."""
    measured: int = 0
    """The requests whose time to the first token is known."""
    unpriced: int = 0
    """The requests whose price is not known. It is not stored: `Usages.sums` finds them."""

    @property
    def known_cost(self) -> float | None:
        """US dollars, of the requests whose price is known; None if there are none of them."""
        return None if self.unpriced and not self.cost else self.cost

    @property
    def cached_share(self) -> float | None:
        """The part of the input that came from caches, from 0 to 1; None if there was no input."""
        return self.cached_tokens / self.input_tokens if self.input_tokens else None

    def add(self, used: RequestUsage) -> None:
        """Add a request."""
        self.requests += 1
        self.input_tokens += used.usage.input_tokens
        self.output_tokens += used.usage.output_tokens
        self.cached_tokens += used.usage.cached_tokens
        self.cost = rounded_cost(self.cost + (used.usage.cost or 0.0))
        if used.first_token is not None:
            self.first_token += used.first_token
            self.measured += 1

    def merge(self, other: UsageSums) -> None:
        """Add other sums."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.cost = rounded_cost(self.cost)


class TurnUsage(NamedTuple):
    """The context of a session after one of its replies or compactions."""

    seq: int
    time: float
    tokens: int
    is_compaction: bool
    cost: float | None


class UsageAdvance(NamedTuple):
    """What the next entries of a session change."""

    number: int
    old: UsageState
    new: UsageState
    sums: dict[tuple[int, str], UsageSums]
    """By quarter of an hour and model. The model is empty where the entry does not name it."""
    turns: list[TurnUsage]


_STATE = ", ".join(UsageState.__struct_fields__)
_TURN = ", ".join(TurnUsage._fields)
_SUMS = tuple(name for name in UsageSums.__struct_fields__ if name != "unpriced")
_COSTLESS = "used.cost = 0 AND used.input_tokens + used.output_tokens > 0"
_FREE = (
    "SELECT turn.session FROM turn WHERE turn.cost = 0 "
    f"AND turn.session IN (SELECT used.session FROM used WHERE used.quarter >= $1 AND {_COSTLESS})"
)
_UNPRICED = (
    f"CAST(sum(CASE WHEN {_COSTLESS} AND used.session NOT IN ({_FREE}) THEN used.requests ELSE 0 END) AS bigint)"
)
"""Requests that cost nothing, in sessions that have no reply whose price is known to be 0."""
_ADD = (
    f"INSERT INTO used (session, quarter, model, {', '.join(_SUMS)}) "
    "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (session, quarter, model) DO UPDATE SET "
    f"{', '.join(f'{name} = used.{name} + excluded.{name}' for name in _SUMS)}"
)
_ADD_TURN = f"INSERT INTO turn (session, {_TURN}) VALUES ($1, $2, $3, $4, $5, $6)"
_COLUMNS: dict[Dimension, str] = {
    "quarter": "used.quarter",
    "model": "coalesce(nullif(used.model, ''), usage_indexed.model)",
    "folder": "usage_indexed.folder",
}


class Usages:
    """The tables of the index, while they are open."""

    def __init__(self, database: IndexDatabase) -> None:
        self._database = database
        self.is_kept, self.together = database.is_kept, database.together

    def states(self, numbers: Sequence[int] | None = None) -> dict[int, UsageState]:
        """Return how far these sessions are indexed, or all."""
        query = f"SELECT session, {_STATE} FROM usage_indexed"
        if numbers is None:
            rows = self._database.fetch(query)
        else:
            rows = self._database.fetch(f"{query} WHERE session = ANY($1)", list(numbers))
        return {number: UsageState(*state) for number, *state in rows}

    def behind(self) -> list[int]:
        """Return the sessions with entries that are not indexed. The tables must be in the database of the log."""
        query = "SELECT number FROM session LEFT JOIN usage_indexed ON session = number WHERE last > coalesce(seq, 0)"
        return [number for (number,) in self._database.fetch(f"{query} ORDER BY number")]

    def count(self) -> int:
        """Return how many sessions are indexed."""
        return int(self._database.fetch("SELECT count(*) FROM usage_indexed")[0][0])

    def advance(self, step: UsageAdvance) -> UsageState:
        """Add the changes in one transaction, if the state is still the old one. Return the state then."""
        number = step.number
        sums = [(number, *key, *(getattr(each, name) for name in _SUMS)) for key, each in step.sums.items()]

        def work() -> Work[UsageState]:
            state = yield from take_state("usage_indexed", self._database.sessions, number, step.old, step.new)
            if state is not None:
                return state
            yield Statement(_ADD, rows=sums)
            yield Statement(_ADD_TURN, rows=[(number, *turn) for turn in step.turns])
            return step.new

        return self._database.run(work)

    def forget(self, numbers: Sequence[int]) -> None:
        """Remove sessions."""

        def work() -> Work[None]:
            for table in ("used", "turn", "usage_indexed"):
                yield Statement(f"DELETE FROM {table} WHERE session = ANY($1)", (list(numbers),))

        self._database.run(work)

    def sums(self, dimension: Dimension, since: int) -> list[tuple[str | int, UsageSums]]:
        """Return the sums by one dimension, of the quarters from `since` on."""
        kinds = {"cost": "double precision", "first_token": "double precision"}
        sums = ", ".join(f"CAST(sum(used.{name}) AS {kinds.get(name, 'bigint')})" for name in _SUMS)
        rows = self._database.fetch(
            f"SELECT {_COLUMNS[dimension]}, {sums}, {_UNPRICED} FROM used JOIN usage_indexed USING (session) "
            "WHERE used.quarter >= $1 GROUP BY 1",
            since,
        )
        return [(name, UsageSums(*values)) for name, *values in rows]

    def cost(self, start: int, end: int, folder: str = "", sessions: Sequence[int] | None = None) -> float:
        """Return what requests of these quarters have cost: all, or those in a folder, or of some sessions."""
        query = "SELECT coalesce(sum(used.cost), 0) FROM used JOIN usage_indexed USING (session) WHERE quarter >= $1"
        query, values = f"{query} AND quarter < $2", [start, end]
        conditions = {"usage_indexed.folder = $3": folder or None, "session = ANY($3)": sessions}
        for condition, value in conditions.items():
            if value is not None:
                found = self._database.fetch(f"{query} AND {condition}", *values, value)
                return rounded_cost(float(found[0][0]))
        return rounded_cost(float(self._database.fetch(query, *values)[0][0]))

    def turns(self, number: int) -> list[TurnUsage]:
        """Return the replies and compactions of a session, in order."""
        rows = self._database.fetch(f"SELECT {_TURN} FROM turn WHERE session = $1 ORDER BY seq", number)
        return [
            TurnUsage(seq, time, tokens, bool(is_compaction), cost) for seq, time, tokens, is_compaction, cost in rows
        ]


def quarter_of(time: float) -> int:
    """Return the quarter of an hour of a time.

    >>> quarter_of(0.0), quarter_of(1_800.5), quarter_of(float("inf")) == quarter_of(1e300)
    (0, 2, True)
    """
    return int(min(max(0.0, time), _LAST_QUARTER * QUARTER_SECONDS) // QUARTER_SECONDS)


class Day(NamedTuple):
    """A day from its midnight up to the next one: 23 to 25 hours."""

    start: float
    end: float


def day_of(moment: float) -> Day:
    """Return the day of a moment."""
    try:
        year, month, day = time.localtime(moment)[:3]
        start, end = (time.mktime((year, month, each, 0, 0, 0, 0, 0, -1)) for each in (day, day + 1))
    except (OverflowError, ValueError, OSError):  # outside of all calendars
        return Day(0.0, 0.0)
    return Day(start, end)


def name_of(moment: float) -> str:
    """Return the date of a moment, or "" if no calendar has it."""
    try:
        return time.strftime("%Y-%m-%d", time.localtime(moment))
    except (OverflowError, ValueError, OSError):
        return ""


def named(sums: Iterable[tuple[str | int, UsageSums]]) -> dict[str, UsageSums]:
    """Return sums by their names: those of quarters of an hour become those of days."""
    found: dict[str, UsageSums] = {}
    for key, each in sums:
        found.setdefault(key if isinstance(key, str) else name_of(key * QUARTER_SECONDS), UsageSums()).merge(each)
    return found
