"""The search index of a log in Postgres: tables of the same database, which all machines share.

Trigrams in a GIN index find candidates; no extension is needed. The text in lower case checks them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, TypeVar

from outrider.conversation.search_query import SearchQuery, best
from outrider.log.passage_tables import MAX_TRIGRAMS, Hit, IndexedPassage, IndexState, Passages, Scope
from outrider.log.postgres.connections import Use
from outrider.log.postgres.schema import Connection
from outrider.log.postgres.statements import storable

T = TypeVar("T")
STATE = "id, seq, checksum, messages, calls"
PASSAGE = "session, seq, time, message, reference, kind, tool, folded, trigrams"
HIT = "session, seq, time, message, reference, kind, tool"
PAGE = 100
"""The number of matching passages in one read."""


class PostgresPassageTables:
    """The place of the index."""

    is_separate = False

    def __init__(self, use: Use) -> None:
        self._use = use

    def exists(self) -> bool:
        """Return whether there is an index. The tables of the log have it."""
        return True

    def run(self, work: Callable[[Passages], T]) -> T:
        return work(_PostgresPassages(self._use))


class _PostgresPassages:
    """The tables. Each method is a transaction of its own."""

    def __init__(self, use: Use) -> None:
        self._use = use

    def states(self) -> dict[int, IndexState]:
        rows = self._fetch(f"SELECT session, {STATE} FROM indexed")
        return {number: IndexState(*state) for number, *state in rows}

    def clear(self) -> None:
        self.forget(list(self.states()))

    def forget(self, numbers: Sequence[int]) -> None:
        self._use(partial(_forget, list(numbers)))

    def add(self, number: int, old: IndexState, new: IndexState, passages: Sequence[IndexedPassage]) -> IndexState:
        return self._use(partial(_add, number, old, new, passages))

    def together(self) -> AbstractContextManager[None]:
        return nullcontext()  # each session has its own transaction, so that others need not wait

    def hits(self, query: SearchQuery, scope: Scope, limit: int) -> list[Hit]:
        return self._use(partial(_hits, query, scope, limit))

    def places(self, session: int, column: str, value: str | int) -> list[tuple[int, str]]:
        condition = "message = $2" if column == "message" else "md5(reference) = md5($2) AND reference = $2"
        value = storable(value) if isinstance(value, str) else value
        return self._fetch(
            f"SELECT seq, kind FROM passage WHERE session = $1 AND {condition} ORDER BY id", session, value
        )

    def newest(self, session: int, count: int) -> list[tuple[str, int]]:
        query = "SELECT reference, message FROM passage WHERE session = $1 ORDER BY id DESC LIMIT $2"
        return self._fetch(query, session, count)

    def _fetch(self, query: str, *values: object) -> list[Any]:
        async def work(connection: Connection) -> list[Any]:
            return [tuple(row) for row in await connection.fetch(query, *values)]

        return self._use(work)


async def _forget(numbers: list[int], connection: Connection) -> None:
    async with connection.transaction():
        await connection.execute("DELETE FROM passage WHERE session = ANY($1)", numbers)
        await connection.execute("DELETE FROM indexed WHERE session = ANY($1)", numbers)


async def _add(
    number: int, old: IndexState, new: IndexState, passages: Sequence[IndexedPassage], connection: Connection
) -> IndexState:
    async with connection.transaction():
        # The row of the session is locked, so that one process at a time indexes it, and nobody deletes it meanwhile.
        if not await connection.fetchval("SELECT true FROM session WHERE number = $1 FOR NO KEY UPDATE", number):
            return new
        row = await connection.fetchrow(f"SELECT {STATE} FROM indexed WHERE session = $1", number)
        found = IndexState(*row) if row else IndexState(new.id)
        if found != old:  # another process was quicker, or has emptied the index
            return found
        await connection.executemany(
            f"INSERT INTO passage ({PASSAGE}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING",
            [_columns(each) for each in passages],
        )
        await connection.execute(
            f"INSERT INTO indexed (session, {STATE}) VALUES ($1, $2, $3, $4, $5, $6) "
            "ON CONFLICT (session) DO UPDATE SET (seq, checksum, messages, calls) = "
            "(excluded.seq, excluded.checksum, excluded.messages, excluded.calls)",
            *(number, new.id, new.seq, new.checksum, new.messages, new.calls),
        )
        return new


def _columns(each: IndexedPassage) -> tuple[Any, ...]:
    row, passage, folded = each.row, each.passage, storable(each.folded)
    named = storable(passage.reference), passage.kind, storable(passage.tool)
    return row[0], row[1], row[2], passage.message, *named, folded, _trigrams(folded)


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
