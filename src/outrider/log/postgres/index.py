"""An index of a log in Postgres: tables of the same database, which all machines share."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, TypeVar

from outrider.log.postgres.connections import Use
from outrider.log.postgres.schema import Connection
from outrider.log.postgres.statements import execute, run_work
from outrider.log.sql import IndexDatabase, Statement, Work

T = TypeVar("T")


class PostgresIndex:
    """The place of an index, and the index itself. Each method is a transaction of its own."""

    is_separate = False
    is_kept = True
    sessions = "FROM session WHERE number = $1"

    def __init__(self, use: Use) -> None:
        self._use = use

    def exists(self) -> bool:
        """Return whether there is an index. The tables of the log have it."""
        return True

    def use(self, work: Callable[[IndexDatabase], T]) -> T:
        """Run work on the tables."""
        return work(self)

    def fetch(self, sql: str, *values: Any) -> list[Any]:
        return self._use(partial(execute, statement=Statement(sql, values)))

    def run(self, work: Callable[[], Work[T]]) -> T:
        async def once(connection: Connection) -> T:
            async with connection.transaction():
                return await run_work(connection, work())

        return self._use(once)

    def together(self) -> AbstractContextManager[None]:
        """Do nothing: each session has its own transaction, so that others need not wait."""
        return nullcontext()
