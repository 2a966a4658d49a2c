"""Hold sessions of the log in Postgres, and release them."""

from __future__ import annotations

import time

from outrider.errors import SessionHeldError, SessionLostError
from outrider.log.append import Append
from outrider.log.backend import LOST
from outrider.log.entries import SessionStarted
from outrider.log.holder import Holder
from outrider.log.inbox_tables import ANSWERED_SECONDS
from outrider.log.postgres.commit import NOT_HELD, Positions
from outrider.log.postgres.schema import Connection
from outrider.log.postgres.statements import NOW, Addition, add, create, created_as, forget_inbox
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
            raise SessionHeldError(f"the session {self._started.session[:8]} was just created; try again")
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
