"""Create, hold, release, copy, import and delete sessions of the log in Postgres."""

from __future__ import annotations

import time
from collections.abc import Sequence

from outrider.errors import SessionHeldError, SessionLostError, UnknownSessionError
from outrider.log.append import Append
from outrider.log.backend import LOST, ROW
from outrider.log.copying import Fork, Import
from outrider.log.entries import SessionStarted
from outrider.log.holder import Holder
from outrider.log.inbox_tables import ANSWERED_SECONDS
from outrider.log.postgres.commit import NOT_HELD, Positions
from outrider.log.postgres.schema import Connection
from outrider.log.postgres.statements import NOW, Addition, add, create, created_as, forget_inbox, insert
from outrider.log.rows import Row
from outrider.log.session_id import shown_id
from outrider.log.summary import SessionRow

_RELEASE = """
    WITH released AS (UPDATE session SET holder = '' WHERE number = $1 AND fence = $2 RETURNING number),
        question AS (DELETE FROM question USING released WHERE session = released.number AND question.fence <> 0),
        signal AS (
            DELETE FROM signal USING released
            WHERE session = released.number AND (taken IS NULL OR taken < $3)
        )
    DELETE FROM listener USING released WHERE session = number
"""
_DATE_IMPORT = (
    "UPDATE session SET updated = $1, opened = "
    "coalesce((SELECT min(opened) - 1 FROM session WHERE updated > $1 AND number <> $2), opened) WHERE number = $2"
)
PAGE = 256
"""The number of rows in one read of a session."""


class Creation:
    """A session that is created with its first entries, and linked to its parent in the same commit."""

    def __init__(
        self, started: SessionStarted, append: Append, holder: Holder, link: Append | None, positions: Positions
    ) -> None:
        self._started, self._append, self._holder, self._link = started, append, holder, link
        self._positions = positions
        self._created = time.time()
        self._attempts = 0

    async def run(self, connection: Connection) -> int:
        """Return the number of the session, which is held with fence 1. It may be tried again."""
        self._attempts += 1
        number = await created_as(connection, self._started.session, self._created) if self._attempts > 1 else None
        if number is None and self._link is not None:
            number = await self._create_with_link(connection, self._link)
        elif number is None:
            number = await self._create(connection)
        if number is None:
            raise SessionHeldError(f"the session {shown_id(self._started.session)} was just created; try again")
        first = Addition.of(self._append, 0, b"")
        self._positions.ends[number] = first.last, first.head
        if self._link:
            linked = self._addition(self._link)
            self._positions.ends[linked.number] = linked.last, linked.head
        return number

    def _addition(self, link: Append) -> Addition:
        return Addition.of(link, *self._positions.ends.get(link.number, NOT_HELD))

    async def _create(self, connection: Connection) -> int | None:
        return await create(connection, self._started, self._created, self._holder.encoded, self._append)

    async def _create_with_link(self, connection: Connection, link: Append) -> int | None:
        async with connection.transaction():
            number = await self._create(connection)
            if number and not await add(connection, [self._addition(link)]):
                raise SessionLostError(LOST)
            return number


async def acquire(connection: Connection, found: SessionRow, holder: Holder, positions: Positions) -> bool:
    """Hold a session with the next fence, unless another did meanwhile. It may be tried again."""
    row = await connection.fetchrow(
        f"UPDATE session SET holder = $1, fence = fence + 1, beaten = {NOW} "
        "WHERE number = $2 AND fence = $3 AND beat = $4 RETURNING last, chain",
        *(holder.encoded, found.number, found.fence, found.beat),
    ) or await connection.fetchrow(  # an attempt whose answer was lost
        "SELECT last, chain FROM session WHERE number = $2 AND fence = $3 + 1 AND holder = $1",
        *(holder.encoded, found.number, found.fence),
    )
    if row is not None:
        positions.hold(found.number, *row)
        await forget_inbox(connection, [found.number])
    return row is not None


async def release(connection: Connection, number: int, fence: int) -> None:
    """Clear the holder if the fence is still this one."""
    await connection.execute(_RELEASE, number, fence, time.time() - ANSWERED_SECONDS)


async def write_fork(connection: Connection, fork: Fork, created: float) -> None:
    """Write a copy of a session, created at this time. It may be tried again."""
    source = fork.source
    if await created_as(connection, fork.started.session, created) is not None:
        return
    async with connection.transaction(isolation="repeatable_read"):
        if not await connection.fetchval("SELECT true FROM session WHERE number = $1", source.number):
            raise UnknownSessionError(f"the session {shown_id(source.summary.id)} was just deleted")
        names = await connection.fetch("SELECT sha256 FROM reference WHERE session = $1", source.number)
        fork.update.files = [*{name for (name,) in names} & set(fork.update.files)]
        number = await insert(connection, fork.started, created)
        assert number is not None
        await _insert_rows(connection, [fork.first_row(number)])
        after = 0
        while page := await _page(connection, source.number, after, fork.cut):
            after = page[-1][1]
            await _insert_rows(connection, list(fork.copied_rows(number, page)))
        await _insert_rows(connection, list(fork.last_rows(number)))
        await add(connection, [Addition(number, 1, 0, fork.last, [], fork.update, fork.head)])


async def write_import(connection: Connection, incoming: Import, created: float) -> None:
    """Write an imported session, created at this time. It may be tried again."""
    if await created_as(connection, incoming.started.session, created) is not None:
        return
    async with connection.transaction():
        number = await insert(connection, incoming.started, created)
        if number is None:
            incoming.rename()
            number = await insert(connection, incoming.started, created)
            assert number is not None
        rows = list(incoming.rows(number))
        for start in range(0, len(rows), PAGE):
            await _insert_rows(connection, rows[start : start + PAGE])
        await add(connection, [Addition(number, 1, 0, incoming.last, [], incoming.update, b"")])
        if incoming.times:
            _, used = incoming.times
            await connection.execute(_DATE_IMPORT, used, number)


class Deletion:
    """Sessions that are deleted, all or none."""

    def __init__(self, doomed: Sequence[SessionRow]) -> None:
        self._doomed = doomed
        self._attempts = 0

    async def run(self, connection: Connection) -> None:
        """Delete them. It may be tried again."""
        self._attempts += 1
        numbers, fences = [each.number for each in self._doomed], [each.fence for each in self._doomed]
        async with connection.transaction():
            gone = await connection.fetch(
                "DELETE FROM session USING unnest($1::bigint[], $2::bigint[]) AS doomed (number, fence) "
                "WHERE session.number = doomed.number AND session.fence = doomed.fence RETURNING session.number",
                *(numbers, fences),
            )
            if len(gone) < len(numbers) and not (self._attempts > 1 and not gone):
                raise SessionHeldError(f"the session {shown_id(self._doomed[0].summary.id)} was just opened; try again")
            for table in ("event", "reference", "signal", "question"):
                await connection.execute(f"DELETE FROM {table} WHERE session = ANY($1)", numbers)
            await forget_inbox(connection, numbers)


async def _page(connection: Connection, session: int, after: int, upto: int) -> list[Row]:
    query = f"SELECT {ROW} FROM event WHERE session = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT {PAGE}"
    return [tuple(row) for row in await connection.fetch(query, session, after, upto)]


async def _insert_rows(connection: Connection, rows: Sequence[Row]) -> None:
    await connection.executemany(f"INSERT INTO event ({ROW}) VALUES ($1, $2, $3, $4, $5, $6)", rows)
