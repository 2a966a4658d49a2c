"""The tables of the inbox in Postgres."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from outrider.errors import LogError, SessionLostError
from outrider.log.backend import Backend
from outrider.log.inbox_tables import ANSWERED_SECONDS, CLOSED, DELIVERED, InboxView, QuestionRow, SignalRow
from outrider.log.postgres.link import Database, Line, LoopThread, Use
from outrider.log.postgres.schema import Connection
from outrider.log.postgres.statements import storable
from outrider.log.postgres.writer import PostgresWriter
from outrider.log.summary import SessionRow

COLUMNS = "session.number, question.id, session.id, call_id, asked, body, answer, answered_by"
JOINED = "question JOIN session ON session.number = question.session AND session.fence = question.fence"
BUSY_SECONDS, IDLE_SECONDS = 0.1, 0.5


class PostgresInboxTables:
    """Tables of the schema of the log."""

    def __init__(
        self, backend: Backend, use: Use, writer: PostgresWriter, thread: LoopThread, database: Database
    ) -> None:
        self._backend, self._use, self._writer = backend, use, writer
        self._thread, self._database = thread, database

    def exists(self) -> bool:
        """Return whether there is a log."""
        return self._backend.exists()

    def is_alive(self, row: SessionRow) -> bool:
        """Return whether the holder lives."""
        return self._backend.is_held(row)

    def numbered(self, number: int) -> SessionRow | None:
        """Return a session."""
        return next(iter(self._backend.numbered([number])), None)

    def waiting(self) -> list[QuestionRow]:
        """Return the questions without an answer."""
        query = f"SELECT {COLUMNS} FROM {JOINED} WHERE answer IS NULL ORDER BY asked, question.id"
        return [QuestionRow(*row) for row in self._fetch(query)]

    def question(self, id: str) -> QuestionRow | None:
        """Return a question."""
        return self._use(lambda connection: _find(connection, id))

    def settle(self, id: str, answer: str, by: str) -> bool:
        """Store the first answer."""
        now = time.time()
        return self._use(lambda connection: _settle(connection, id, answer, by, now))

    def send(self, number: int, fence: int, body: str) -> int:
        """Store a message."""
        query = "INSERT INTO signal (session, fence, body, sent) VALUES ($1, $2, $3, $4) RETURNING number"
        return int(self._fetch(query, number, fence, body, time.time())[0][0])

    def signal(self, number: int) -> SignalRow | None:
        """Return a message."""
        found = self._fetch("SELECT session, fence, taken FROM signal WHERE number = $1", number)
        return SignalRow(*found[0]) if found else None

    def is_listening(self, number: int, fence: int) -> bool:
        """Return whether the holder takes messages."""
        return bool(self._fetch("SELECT 1 FROM listener WHERE session = $1 AND fence = $2", number, fence))

    def _fetch(self, query: str, *values: object) -> list[Any]:
        async def work(connection: Connection) -> list[Any]:
            return [tuple(row) for row in await connection.fetch(query, *values)]

        return self._use(work)

    # For the holder

    def announce(self, number: int, fence: int) -> None:
        """Store soon that the holder takes messages."""

        async def work(connection: Connection) -> None:
            await connection.execute(
                "INSERT INTO listener SELECT number, fence FROM session "
                "WHERE number = $1 AND fence = $2 AND holder <> '' "
                "ON CONFLICT (session) DO UPDATE SET fence = excluded.fence",
                *(number, fence),
            )

        self._writer.post(work)

    def withdraw(self, id: str) -> None:
        """Remove soon a question without an answer."""

        async def work(connection: Connection) -> None:
            await connection.execute("DELETE FROM question WHERE id = $1 AND answer IS NULL", id)

        self._writer.post(work)

    def reject(self, id: str, answer: str) -> None:
        """Remove soon an answer that does not count."""

        async def work(connection: Connection) -> None:
            removed = "answer = NULL, answered_by = '', answered = NULL"
            await connection.execute(f"UPDATE question SET {removed} WHERE id = $1 AND answer = $2", id, answer)

        self._writer.post(work)

    async def ask(self, number: int, fence: int, id: str, call_id: str, body: str) -> None:
        """Store a question, and forget old ones."""

        async def work(connection: Connection) -> None:
            old = time.time() - ANSWERED_SECONDS
            await connection.execute("DELETE FROM question WHERE session = $1 AND answered < $2", number, old)
            await _check_fence(connection, number, fence)
            await connection.execute(
                "INSERT INTO question (id, session, fence, call_id, body, asked) VALUES ($1, $2, $3, $4, $5, $6) "
                "ON CONFLICT DO NOTHING",  # an attempt whose answer was lost
                *(id, number, fence, storable(call_id), body, time.time()),
            )

        await self._writer.submit_work(work).finished()

    async def settle_own(self, id: str, answer: str, by: str) -> QuestionRow | None:
        """Store the first answer. Return the question if another was first."""
        found: list[QuestionRow | None] = []
        now = time.time()

        async def work(connection: Connection) -> None:
            is_first = await _settle(connection, id, answer, by, now)
            found[:] = [None if is_first else await _find(connection, id)]

        await self._writer.submit_work(work).finished()
        return found[0]

    async def signals(self, number: int, fence: int) -> list[tuple[int, str]]:
        """Return the messages that wait."""
        found: list[tuple[int, str]] = []
        query = "SELECT number, body FROM signal WHERE session = $1 AND fence = $2 AND taken IS NULL ORDER BY number"

        async def work(connection: Connection) -> None:
            await _check_fence(connection, number, fence)
            found[:] = [(row[0], row[1]) for row in await connection.fetch(query, number, fence)]

        await self._writer.submit_work(work).finished()
        return found

    async def mark_delivered(self, signals: Sequence[int]) -> None:
        """Store that the holder has messages."""
        await self._mark(signals, DELIVERED)

    async def mark_taken(self, signals: Sequence[int]) -> None:
        """Store that messages were taken."""
        await self._mark(signals, time.time())

    async def _mark(self, signals: Sequence[int], taken: float) -> None:
        async def work(connection: Connection) -> None:
            update = "UPDATE signal SET taken = $1, body = '' WHERE number = ANY($2)"
            await connection.execute(update, taken, list(signals))

        await self._writer.submit_work(work).finished()

    def watcher(self) -> PostgresWatcher:
        """Return a watcher of the database."""
        return PostgresWatcher(self._thread, self._database)


async def _find(connection: Connection, id: str) -> QuestionRow | None:
    found = await connection.fetchrow(f"SELECT {COLUMNS} FROM {JOINED} WHERE question.id = $1", storable(id))
    return QuestionRow(*found) if found else None


async def _settle(connection: Connection, id: str, answer: str, by: str, now: float) -> bool:
    # The second half finds what an attempt has stored whose answer was lost.
    values = answer, storable(by), now, storable(id)
    settled = await connection.fetchval(
        "UPDATE question SET answer = $1, answered_by = $2, answered = $3 WHERE id = $4 AND answer IS NULL AND EXISTS "
        "(SELECT FROM session WHERE number = question.session AND session.fence = question.fence AND holder <> '') "
        "RETURNING true",
        *values,
    ) or await connection.fetchval(
        "SELECT true FROM question WHERE answer = $1 AND answered_by = $2 AND answered = $3 AND id = $4", *values
    )
    return bool(settled)


async def _check_fence(connection: Connection, number: int, fence: int) -> None:
    query = "SELECT true FROM session WHERE number = $1 AND fence = $2 AND holder <> ''"
    if not await connection.fetchval(query, number, fence):
        raise SessionLostError(CLOSED)


class _Seen(NamedTuple):
    """What a poll has seen of the inbox."""

    questions: dict[str, QuestionRow]
    signals: set[tuple[int, int]]

    def question(self, id: str) -> QuestionRow | None:
        return self.questions.get(id)

    def has_signals(self, number: int, fence: int) -> bool:
        return (number, fence) in self.signals


class _Watch(NamedTuple):
    look: Callable[[InboxView], None]
    is_busy: Callable[[], bool]
    loop: asyncio.AbstractEventLoop


class PostgresWatcher:
    """Polls the database in the log's own thread, and calls functions on the event loops of those that watch."""

    def __init__(self, thread: LoopThread, database: Database) -> None:
        self._thread = thread
        self._line = Line(database)
        self._watches: list[_Watch] = []
        self._hurried = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._asked = 0
        """Counts the wishes to look, whether or not the log has changed."""
        self._seen: tuple[str, int] = "", -1
        """The version of the log, and the wishes, at the last look."""

    def watch(self, look: Callable[[InboxView], None], is_busy: Callable[[], bool]) -> Callable[[], None]:
        """Call `look` soon, and after every change."""
        watch = _Watch(look, is_busy, asyncio.get_running_loop())
        self._watches.append(watch)
        self._asked += 1
        self._thread.call(self._start)

        def stop() -> None:
            with contextlib.suppress(ValueError):
                self._watches.remove(watch)

        return stop

    def look_soon(self) -> None:
        """Look again, whether or not the log has changed."""
        self._asked += 1
        if self._watches:
            self._thread.call(self._start)

    def close(self) -> None:
        """Stop watching."""
        self._watches.clear()
        with contextlib.suppress(LogError):
            ended: Future[None] = Future()
            self._thread.call(self._stop, ended)
            ended.result(5)

    def _start(self) -> None:
        if self._task is None:
            self._hurried = asyncio.Event()  # of this loop: the log may have had another one before
            self._task = asyncio.get_running_loop().create_task(self._poll())
        else:
            self._hurried.set()

    def _stop(self, ended: Future[None]) -> None:
        if self._task is None:
            ended.set_result(None)
            return
        self._task.add_done_callback(lambda _: ended.set_result(None))
        self._task.cancel()

    async def _poll(self) -> None:
        try:
            while self._watches:
                self._hurried.clear()  # before the look: a wish that comes meanwhile is for the next one
                with contextlib.suppress(LogError):  # Postgres may be restarting: look again later
                    await self._line.use(self._look, seconds=0)
                busy = any(watch.is_busy() for watch in self._watches)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(BUSY_SECONDS if busy else IDLE_SECONDS):
                        await self._hurried.wait()
        finally:
            self._task = None
            await self._line.close()

    async def _look(self, connection: Connection) -> None:
        # The snapshot changes with every transaction that writes.
        asked = self._asked
        found = await connection.fetchval("SELECT pg_current_snapshot()::text"), asked
        if found == self._seen:
            return
        seen = _Seen({}, set())
        if await connection.fetchval("SELECT to_regclass('outrider.signal')"):
            rows = await connection.fetch(f"SELECT {COLUMNS} FROM {JOINED}")
            signals = await connection.fetch("SELECT DISTINCT session, fence FROM signal WHERE taken IS NULL")
            seen = _Seen({row[1]: QuestionRow(*row) for row in rows}, {(row[0], row[1]) for row in signals})
        for watch in list(self._watches):
            with contextlib.suppress(RuntimeError):  # its loop was closed
                watch.loop.call_soon_threadsafe(self._call, watch, seen)
        self._seen = found

    def _call(self, watch: _Watch, seen: _Seen) -> None:
        if watch in self._watches:
            watch.look(seen)
