"""The usage index of a log in Postgres: tables of the same database, which all machines share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, TypeVar

import msgspec

from outrider.log.postgres.link import Use
from outrider.log.postgres.schema import Connection
from outrider.log.postgres.statements import storable
from outrider.log.usage_tables import Dimension, TurnUsage, UsageAdvance, Usages, UsageState, UsageSums

T = TypeVar("T")
STATE = "id, seq, checksum, model, folder"
TURN = "seq, time, tokens, is_compaction, cost"
SUMS = UsageSums.__struct_fields__
_ADD = (
    f"INSERT INTO used (session, quarter, model, {', '.join(SUMS)}) "
    "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (session, quarter, model) DO UPDATE SET "
    f"{', '.join(f'{name} = used.{name} + excluded.{name}' for name in SUMS)}"
)
_TAKE = (
    f"INSERT INTO usage_indexed AS known (session, {STATE}) "
    "SELECT number, $2, $3, $4, $5, $6 FROM session WHERE number = $1 "
    f"ON CONFLICT (session) DO UPDATE SET ({STATE}) = "
    "(excluded.id, excluded.seq, excluded.checksum, excluded.model, excluded.folder) "
    "WHERE known.seq = $7 RETURNING true"
)
_COLUMNS: dict[Dimension, str] = {
    "quarter": "used.quarter",
    "model": "coalesce(nullif(used.model, ''), usage_indexed.model)",
    "folder": "usage_indexed.folder",
}


class PostgresUsageTables:
    """The place of the index."""

    is_separate = False

    def __init__(self, use: Use) -> None:
        self._use = use

    def exists(self) -> bool:
        """Return whether there is an index. The tables of the log have it."""
        return True

    def run(self, work: Callable[[Usages], T]) -> T:
        """Run work on the tables."""
        return work(_PostgresUsages(self._use))


class _PostgresUsages:
    """The tables. Each method is a transaction of its own."""

    is_kept = True

    def __init__(self, use: Use) -> None:
        self._use = use

    def states(self, numbers: Sequence[int] | None = None) -> dict[int, UsageState]:
        query = f"SELECT session, {STATE} FROM usage_indexed WHERE $1::bigint[] IS NULL OR session = ANY($1)"
        rows = self._fetch(query, None if numbers is None else list(numbers))
        return {number: UsageState(*state) for number, *state in rows}

    def count(self) -> int:
        return int(self._fetch("SELECT count(*) FROM usage_indexed")[0][0])

    def advance(self, step: UsageAdvance) -> UsageState:
        return self._use(partial(_advance, step))

    def together(self) -> AbstractContextManager[None]:
        return nullcontext()  # each session has its own transaction, so that others need not wait

    def forget(self, numbers: Sequence[int]) -> None:
        async def work(connection: Connection) -> None:
            async with connection.transaction():
                for table in ("used", "turn", "usage_indexed"):
                    await connection.execute(f"DELETE FROM {table} WHERE session = ANY($1)", list(numbers))

        self._use(work)

    def sums(self, dimension: Dimension, since: int) -> list[tuple[str | int, UsageSums]]:
        whole = {"cost": "double precision", "first_token": "double precision"}
        sums = ", ".join(f"sum(used.{name})::{whole.get(name, 'bigint')}" for name in SUMS)
        rows = self._fetch(
            f"SELECT {_COLUMNS[dimension]}, {sums} FROM used JOIN usage_indexed USING (session) "
            "WHERE used.quarter >= $1 GROUP BY 1",
            since,
        )
        return [(name, UsageSums(*values)) for name, *values in rows]

    def turns(self, number: int) -> Iterator[TurnUsage]:
        return (
            TurnUsage(*row) for row in self._fetch(f"SELECT {TURN} FROM turn WHERE session = $1 ORDER BY seq", number)
        )

    def _fetch(self, query: str, *values: object) -> list[Any]:
        async def work(connection: Connection) -> list[Any]:
            return [tuple(row) for row in await connection.fetch(query, *values)]

        return self._use(work)


async def _advance(step: UsageAdvance, connection: Connection) -> UsageState:
    number, new = step.number, step.new
    async with connection.transaction():
        # The row of the state is taken first, so that one process at a time indexes a session. Appends do not wait.
        state = new.id, new.seq, new.checksum, storable(new.model), storable(new.folder)
        if not await connection.fetchval(_TAKE, number, *state, step.old.seq):
            found = await connection.fetchrow(f"SELECT {STATE} FROM usage_indexed WHERE session = $1", number)
            return UsageState(*found) if found else new  # another process was quicker, or the session is gone
        await connection.executemany(
            _ADD,
            [
                (number, quarter, storable(model), *msgspec.structs.astuple(sums))
                for (quarter, model), sums in step.sums.items()
            ],
        )
        await connection.executemany(
            f"INSERT INTO turn (session, {TURN}) VALUES ($1, $2, $3, $4, $5, $6)",
            [(number, *turn) for turn in step.turns],
        )
        return new
