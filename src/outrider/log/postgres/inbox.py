"""The inbox in Postgres: tables of the log's schema."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple, TypeVar

from outrider.errors import LogError
from outrider.log.backend import Backend
from outrider.log.inbox_tables import QUESTIONS, InboxView, QuestionRow
from outrider.log.postgres.connections import Database, LoopThread, SteadyConnection, Use
from outrider.log.postgres.schema import Connection
from outrider.log.postgres.statements import run_work
from outrider.log.postgres.writer import PostgresWriter
from outrider.log.sql import Work
from outrider.log.summary import SessionRow

T = TypeVar("T")
BUSY_SECONDS, IDLE_SECONDS = 0.1, 0.5


class PostgresInbox:
    """Reads and changes do not wait for the writes of the log. The work of the holder keeps their order."""

    def __init__(
        self, backend: Backend, use: Use, writer: PostgresWriter, thread: LoopThread, database: Database
    ) -> None:
        self._backend, self._use, self._writer = backend, use, writer
        self._thread, self._database = thread, database
        self.exists, self.is_alive = backend.exists, backend.is_held

    def numbered(self, number: int) -> SessionRow | None:
        return next(iter(self._backend.numbered([number])), None)

    def read(self, work: Callable[[], Work[T]]) -> T:
        return self._use(lambda connection: run_work(connection, work()))

    change = read

    def post(self, work: Callable[[], Work[None]]) -> None:
        self._writer.post(lambda connection: run_work(connection, work()))

    async def submit(self, work: Callable[[], Work[T]]) -> T:
        """Run work, and wait in the event loop."""
        found: list[T] = []

        async def once(connection: Connection) -> None:
            found[:] = [await run_work(connection, work())]

        await self._writer.submit_work(once).finished()
        return found[0]

    def watcher(self) -> PostgresWatcher:
        """Return a watcher of the database."""
        return PostgresWatcher(self._thread, self._database)


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
        self._line = SteadyConnection(database)
        self._watches: list[_Watch] = []
        self._hurried = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._asked = 0
        """Counts the wishes to look, whether or not the log has changed."""
        self._seen: tuple[str, int] = "", -1
        """The version of the log, and the wishes, at the last look."""

    def watch(self, look: Callable[[InboxView], None], is_busy: Callable[[], bool]) -> Callable[[], None]:
        watch = _Watch(look, is_busy, asyncio.get_running_loop())
        self._watches.append(watch)
        self._asked += 1
        self._thread.call(self._start)

        def stop() -> None:
            with contextlib.suppress(ValueError):
                self._watches.remove(watch)

        return stop

    def look_soon(self) -> None:
        self._asked += 1
        if self._watches:
            self._thread.call(self._start)

    def close(self) -> None:
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
            rows = await connection.fetch(QUESTIONS)
            signals = await connection.fetch("SELECT DISTINCT session, fence FROM signal WHERE taken IS NULL")
            seen = _Seen({row[1]: QuestionRow(*row) for row in rows}, {(row[0], row[1]) for row in signals})
        for watch in list(self._watches):
            with contextlib.suppress(RuntimeError):  # its loop was closed
                watch.loop.call_soon_threadsafe(self._call, watch, seen)
        self._seen = found

    def _call(self, watch: _Watch, seen: _Seen) -> None:
        if watch in self._watches:
            watch.look(seen)
