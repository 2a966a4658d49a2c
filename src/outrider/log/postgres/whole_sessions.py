"""Write and delete whole sessions of the log in Postgres: copies, imports, deletions."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.errors import SessionHeldError, UnknownSessionError
from outrider.log.backend import ROW
from outrider.log.copying import Fork, Import
from outrider.log.postgres.schema import Connection
from outrider.log.postgres.statements import Addition, add, created_as, forget_inbox, insert
from outrider.log.rows import Row
from outrider.log.summary import SessionRow

_DATE_IMPORT = (
    "UPDATE session SET updated = $1, opened = "
    "coalesce((SELECT min(opened) - 1 FROM session WHERE updated > $1 AND number <> $2), opened) WHERE number = $2"
)
PAGE = 256
"""The number of rows in one read of a session."""


async def write_fork(connection: Connection, fork: Fork, created: float) -> None:
    """Write a copy of a session, created at this time. It may be tried again."""
    source = fork.source
    if await created_as(connection, fork.started.session, created) is not None:
        return
    async with connection.transaction(isolation="repeatable_read"):
        if not await connection.fetchval("SELECT true FROM session WHERE number = $1", source.number):
            raise UnknownSessionError(f"the session {source.summary.id[:8]} was just deleted")
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
                raise SessionHeldError(f"the session {self._doomed[0].summary.id[:8]} was just opened; try again")
            for table in ("event", "reference", "signal", "question"):
                await connection.execute(f"DELETE FROM {table} WHERE session = ANY($1)", numbers)
            await forget_inbox(connection, numbers)


async def _page(connection: Connection, session: int, after: int, upto: int) -> list[Row]:
    query = f"SELECT {ROW} FROM event WHERE session = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT {PAGE}"
    return [tuple(row) for row in await connection.fetch(query, session, after, upto)]


async def _insert_rows(connection: Connection, rows: Sequence[Row]) -> None:
    await connection.executemany(f"INSERT INTO event ({ROW}) VALUES ($1, $2, $3, $4, $5, $6)", rows)
