"""The SQL of the log in Postgres. One statement appends the entries of many sessions, each under its fence."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec

from outrider.log.append import NOTHING_USED, Append, SummaryUpdate
from outrider.log.backend import ROW
from outrider.log.entries import SessionStarted
from outrider.log.inbox_tables import ANSWERED_SECONDS
from outrider.log.postgres.schema import Connection
from outrider.log.rows import Row
from outrider.log.sql import Statement, Work

T = TypeVar("T")
AppendOne: TypeAlias = Callable[..., Coroutine[Any, Any, str | None]]
NOW = "date_part('epoch', clock_timestamp())"
"""The time by the clock of the database. `extract` would make a numeric of it first, which takes longer."""

_APPEND = f"""
    WITH given AS (
        SELECT * FROM unnest(
            $1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
            $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::float8[], $14::text[],
            $15::text[], $16::text[], $17::text[], $18::bytea[], $19::boolean[], $20::boolean[]
        ) AS given (
            number, fence, before, last, size, entries, turns, input_tokens, output_tokens, cached_tokens,
            cache_write_tokens, reasoning_tokens, cost, model, first_title, settings, title, chain, is_use, has_news
        )
    ), held AS (
        UPDATE session SET
            last = given.last,
            chain = given.chain,
            updated = CASE WHEN given.has_news THEN {NOW} ELSE session.updated END,
            opened = CASE WHEN given.is_use THEN nextval('opening') ELSE session.opened END,
            beaten = {NOW},
            size = session.size + given.size,
            entries = session.entries + given.entries,
            turns = session.turns + given.turns,
            input_tokens = session.input_tokens + given.input_tokens,
            output_tokens = session.output_tokens + given.output_tokens,
            cached_tokens = session.cached_tokens + given.cached_tokens,
            cache_write_tokens = session.cache_write_tokens + given.cache_write_tokens,
            reasoning_tokens = session.reasoning_tokens + given.reasoning_tokens,
            cost = CASE WHEN given.cost IS NULL THEN session.cost ELSE coalesce(session.cost, 0) + given.cost END,
            model = coalesce(given.model, session.model),
            settings = coalesce(given.settings, session.settings),
            title = coalesce(given.title, nullif(session.title, ''), given.first_title, '')
        FROM given
        WHERE session.number = given.number AND session.fence = given.fence AND session.last = given.before
        RETURNING session.number
    ), added AS (
        INSERT INTO event ({ROW})
        SELECT event.* FROM unnest(
            $21::bigint[], $22::bigint[], $23::float8[], $24::text[], $25::bytea[], $26::bigint[]
        ) AS event ({ROW}) JOIN held ON held.number = event.session
    ), referred AS (
        INSERT INTO reference (session, sha256)
        SELECT file.* FROM unnest($27::bigint[], $28::text[]) AS file (session, sha256)
            JOIN held ON held.number = file.session
        ON CONFLICT DO NOTHING
    )
    SELECT number FROM held
"""

_APPEND_ONE = f"""
    WITH held AS (
        UPDATE session SET
            last = $3, updated = {NOW}, beaten = {NOW}, size = size + $8, entries = entries + 1,
            title = coalesce(nullif(title, ''), $9, ''), chain = $10,
            opened = CASE WHEN $11 THEN nextval('opening') ELSE opened END
        WHERE number = $1 AND fence = $2 AND last = $3 - 1
        RETURNING number
    )
    INSERT INTO event ({ROW}) SELECT number, $3, $4, $5, $6, $7 FROM held
"""
"""The most frequent case of `_APPEND` in a third of the time: one entry, which changes no more of the summary."""

_CREATE = f"""
    WITH created AS (
        INSERT INTO session (
            number, fence, last, size, entries, turns, input_tokens, output_tokens, cached_tokens, cache_write_tokens,
            reasoning_tokens, cost, model, settings, title, chain, id, parent, created, updated, holder, beaten
        ) OVERRIDING SYSTEM VALUE
        VALUES (
            $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, coalesce($13, ''), coalesce($15, '{{}}'),
            coalesce($16, $14, ''), $17, $18, $19, $20, $20, $21, {NOW}
        )
        ON CONFLICT (id) DO NOTHING RETURNING number
    )
    INSERT INTO event ({ROW})
    SELECT number, event.* FROM created, unnest($22::bigint[], $23::float8[], $24::text[], $25::bytea[], $26::bigint[])
        AS event
    RETURNING session
"""
"""`_APPEND` for a session that is not there yet."""


class Place(NamedTuple):
    """Where a session ends: its fence, the seq of its newest row, and the checksum of that row."""

    fence: int
    last: int
    checksum: int | None


class Addition(msgspec.Struct):
    """Rows to add to one session after its row `before`."""

    number: int
    fence: int
    before: int
    last: int
    rows: list[Row]
    update: SummaryUpdate
    head: bytes
    """The newest link of the session's chain when this is done."""

    @classmethod
    def of(cls, append: Append, before: int, head: bytes) -> Addition:
        """Return the rows of entries, which are linked to the head."""
        addition = cls(append.number, append.fence, before, before, [], append.update, head)
        addition._add_rows(append)
        return addition

    def absorb(self, append: Append) -> None:
        """Add the entries of another append to the same session."""
        self._add_rows(append)
        both = SummaryUpdate(self.update.settings)  # that of an append stays as it is, for another attempt
        both.absorb(self.update)
        both.absorb(append.update)
        self.update = both

    def _add_rows(self, append: Append) -> None:
        for kind, body in append.bodies:
            self.last += 1
            row, self.head = append.chain.row(self.head, self.number, self.last, append.time, kind, body)
            self.rows.append(row)
        append.last = self.last

    @property
    def place(self) -> Place:
        """Where the session ends when this is done."""
        return Place(self.fence, self.last, self.rows[-1][5] if self.rows else None)

    @property
    def _values(self) -> tuple[Any, ...] | None:
        """The values of `_APPEND_ONE`, or None if that is not enough."""
        update = self.update
        if len(self.rows) != 1 or update.turns or update.model or update.files or update.settings_changed:
            return None
        if update.usage is not NOTHING_USED:
            return None
        title = storable(update.title) or None
        return self.number, self.fence, *self.rows[0][1:], update.size, title, self.head, update.is_use

    @property
    def _columns(self) -> tuple[Any, ...]:
        update, used = self.update, self.update.usage
        title = update.set_title
        return (
            *(self.number, self.fence, self.before, self.last, update.size, update.entries, update.turns),
            *(used.input_tokens, used.output_tokens, used.cached_tokens, used.cache_write_tokens),
            *(used.reasoning_tokens, used.cost),
            *(storable(update.model) or None, storable(update.title) or None),
            msgspec.json.encode(update.settings).decode() if update.settings_changed else None,
            None if title is None else storable(title),
            self.head,
            update.is_use,
            update.has_news,
        )


async def prepare(connection: Connection) -> AppendOne:
    """Return the most frequent statement of `add`, which is a little faster than to look it up each time."""
    statement = await connection.prepare(_APPEND_ONE)

    async def append_one(*values: Any) -> str | None:
        await statement.fetch(*values)
        return statement.get_statusmsg()

    return append_one


async def add(connection: Connection, additions: Sequence[Addition], append_one: AppendOne | None = None) -> set[int]:
    """Add rows to held sessions in one commit. Return the numbers of those that are still held as expected."""
    if len(additions) == 1 and (values := additions[0]._values):
        append_one = append_one or partial(connection.execute, _APPEND_ONE)
        return {additions[0].number} if await append_one(*values) == "INSERT 0 1" else set()
    given = zip(*(each._columns for each in additions), strict=True)
    rows = [*zip(*(row for each in additions for row in each.rows), strict=True)] or [()] * 6
    files = [(each.number, file) for each in additions for file in each.update.files]
    named = [*zip(*files, strict=True)] or [()] * 2
    found = await connection.fetch(_APPEND, *given, *rows, *named)
    return {number for (number,) in found}


async def places(connection: Connection, numbers: Sequence[int]) -> dict[int, Place]:
    """Return where sessions end."""
    newest = "SELECT checksum FROM event WHERE event.session = number AND seq = last"
    rows = await connection.fetch(
        f"SELECT number, fence, last, ({newest}) FROM session WHERE number = ANY($1)", numbers
    )
    return {number: Place(*rest) for number, *rest in rows}


async def beat(connection: Connection, held: Mapping[int, int]) -> None:
    """Send a heartbeat for sessions, given their fences.

    A row that is locked is being changed by an append, which counts as a heartbeat, too. To wait for it could end in a
    deadlock: both lock the rows of several sessions.
    """
    fences = list(held.items())
    await connection.execute(
        f"UPDATE session SET beat = beat + 1, beaten = {NOW} WHERE number IN ("
        "SELECT session.number FROM session JOIN unnest($1::bigint[], $2::bigint[]) AS held (number, fence) "
        "ON session.number = held.number AND session.fence = held.fence FOR NO KEY UPDATE OF session SKIP LOCKED)",
        *zip(*fences, strict=True) if fences else ((), ()),
    )


async def create(
    connection: Connection, started: SessionStarted, created: float, holder: str, append: Append
) -> int | None:
    """Insert a new session with its first entries and fence 1. Return its number, or None if its id is taken."""
    # The checksums of the rows have the number.
    append.number = await connection.fetchval("SELECT nextval('session_number_seq')")
    addition = Addition.of(append, 0, b"")
    rows = zip(*(each[1:] for each in addition.rows), strict=True)
    number, fence, _, *summary, _, _ = addition._columns
    session = (started.session, started.parent, created, holder)
    found: int | None = await connection.fetchval(_CREATE, number, fence, *summary, *session, *rows)
    return found


async def insert(connection: Connection, started: SessionStarted, created: float, holder: str = "") -> int | None:
    """Insert a new session with fence 1. Return its number, or None if its id is taken."""
    number: int | None = await connection.fetchval(
        "INSERT INTO session (id, parent, created, updated, holder, fence, beaten) "
        f"VALUES ($1, $2, $3, $3, $4, 1, {NOW}) ON CONFLICT (id) DO NOTHING RETURNING number",
        *(started.session, started.parent, created, holder),
    )
    return number


async def created_as(connection: Connection, id: str, created: float) -> int | None:
    """Return the number of a session that an attempt whose answer was lost has created, or None."""
    number: int | None = await connection.fetchval(
        "SELECT number FROM session WHERE id = $1 AND created = $2", id, created
    )
    return number


async def forget_inbox(connection: Connection, numbers: Sequence[int]) -> None:
    """Delete the questions of holders and the messages to them: they are gone.

    Questions that need no holder stay. What they have taken stays for a while: senders must be able to tell it from
    what was lost.
    """
    gone = "session = ANY($1)"
    await connection.execute(
        f"WITH question AS (DELETE FROM question WHERE {gone} AND fence <> 0), "
        f"signal AS (DELETE FROM signal WHERE {gone} AND (taken IS NULL OR taken < $2)) "
        f"DELETE FROM listener WHERE {gone}",
        *(numbers, time.time() - ANSWERED_SECONDS),
    )


def storable(text: str) -> str:
    """Return a text that Postgres can store: without NUL."""
    return text.replace("\0", "\ufffd")


async def run_work(connection: Connection, work: Work[T]) -> T:
    """Run the statements of some work, and return its result."""
    try:
        statement = next(work)
        while True:
            statement = work.send(await execute(connection, statement))
    except StopIteration as end:
        result: T = end.value
        return result


async def execute(connection: Connection, statement: Statement) -> list[Any]:
    """Run one statement and return its rows."""
    if statement.rows is not None:
        await connection.executemany(statement.sql, [_storable_values(row) for row in statement.rows])
        return []
    return [tuple(row) for row in await connection.fetch(statement.sql, *_storable_values(statement.values))]


def _storable_values(values: Sequence[Any]) -> list[Any]:
    return [storable(value) if isinstance(value, str) else value for value in values]
