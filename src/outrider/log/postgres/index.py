"""The indexes of a log in Postgres: tables of the same database, which all machines share.

To search, trigrams in a GIN index find candidates; no extension is needed. The text in lower case checks them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, TypeVar

from outrider.conversation.passages import SearchQuery, best
from outrider.log.passage_tables import HIT, MAX_TRIGRAMS, PASSAGE, Hit, IndexedPassage, Passages, Scope
from outrider.log.postgres.connections import Use
from outrider.log.postgres.schema import Connection
from outrider.log.postgres.statements import execute, run_work, storable
from outrider.log.sql import IndexDatabase, Statement, Work

T = TypeVar("T")
PAGE = 100
"""The number of matching passages in one read."""


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


class PostgresPassageTables(PostgresIndex):
    """The place of the search index."""

    def open(self, work: Callable[[Passages], T]) -> T:
        return work(_PostgresPassages(self._use))


class _PostgresPassages(Passages):
    """The tables. Each method is a transaction of its own."""

    _is_reference = "md5(reference) = md5($2) AND reference = $2"

    def __init__(self, use: Use) -> None:
        self._database, self._use = PostgresIndex(use), use

    def clear(self) -> None:
        self.forget(list(self.states()))

    def forget(self, numbers: Sequence[int]) -> None:
        def work() -> Work[None]:
            for table in ("passage", "indexed"):
                yield Statement(f"DELETE FROM {table} WHERE session = ANY($1)", (list(numbers),))

        self._database.run(work)

    def _insert(self, passages: Sequence[IndexedPassage]) -> Work[None]:
        insert = f"INSERT INTO passage ({PASSAGE}, trigrams) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
        rows = [(*each.columns, _trigrams(each.folded)) for each in passages]
        yield Statement(f"{insert} ON CONFLICT DO NOTHING", rows=rows)

    def hits(self, query: SearchQuery, scope: Scope, limit: int) -> list[Hit]:
        return self._use(partial(_hits, query, scope, limit))


def _trigrams(text: str) -> list[str]:
    return list({text[at : at + 3] for at in range(len(text) - 2)})


async def _hits(query: SearchQuery, scope: Scope, limit: int, connection: Connection) -> list[Hit]:
    order = ("id",) if scope.is_one_session else ("time", "id")
    found = await _whole_first(query, scope, order, limit, connection)
    if not found and len(query.words) > 1:
        matches = [await _matching([word], scope, order, connection) for word in query.words]
        condition, values = _condition([], scope)
        total = await connection.fetchval(f"SELECT count(*) FROM passage WHERE {condition}", *values)
        found = [number for *_, number in best(matches, total, limit)]
    rows = await connection.fetch(f"SELECT id, {HIT} FROM passage WHERE id = ANY($1)", found)
    hits = {row[0]: Hit(*row[1:]) for row in map(tuple, rows)}
    return [hits[number] for number in found if number in hits]


async def _whole_first(
    query: SearchQuery, scope: Scope, order: Sequence[str], limit: int, connection: Connection
) -> list[int]:
    """Return the ids of passages with all words: those with all words whole first, then the newest.

    Python decides what a whole word is, as in SQLite: what Postgres calls a letter depends on its settings.
    """
    whole: list[int] = []
    partial_matches: list[int] = []
    newest = ", ".join(f"{column} DESC" for column in order)
    condition, values = _condition(query.words, scope)
    async with connection.transaction(readonly=True):
        statement = f"SELECT id, folded FROM passage WHERE {condition} ORDER BY {newest}"
        async for number, folded in connection.cursor(statement, *values, prefetch=PAGE):
            (whole if query.has_whole(folded) else partial_matches).append(number)
            if len(whole) >= limit:
                break
    return [*whole, *partial_matches][:limit]


async def _matching(
    words: Sequence[str], scope: Scope, order: Sequence[str], connection: Connection
) -> set[tuple[Any, ...]]:
    condition, values = _condition(words, scope)
    rows = await connection.fetch(f"SELECT {', '.join(order)} FROM passage WHERE {condition}", *values)
    return {tuple(row) for row in rows}


def _condition(words: Iterable[str], scope: Scope) -> tuple[str, list[Any]]:
    """Return the WHERE of the passages that contain all words, with its values."""
    trigrams = list({word[at : at + 3] for word in words for at in range(min(len(word) - 2, MAX_TRIGRAMS))})
    conditions = ["tool <> $1"]
    values: list[Any] = [storable(scope.without) or "\ufffd"]
    if scope.sessions is not None:
        values.append(scope.sessions)
        conditions.append(f"session = ANY(${len(values)})")
    if trigrams:
        values.append(trigrams)
        conditions.append(f"trigrams @> ${len(values)}")
    for word in words:
        values.append(word)
        conditions.append(f"strpos(folded, ${len(values)}) > 0")
    return " AND ".join(conditions), values
