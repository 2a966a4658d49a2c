"""Appends on a connection in the event loop of the caller: no other thread has to wake up for them.

It knows only how to succeed. Writes that meet any trouble go to the writer in the log's thread, which finds out what
was done. So do the writes of a loop that ends: nothing waits for a loop that may not run again.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence

from outrider.errors import LogError
from outrider.log.pending_write import PendingWrite, resolve_all
from outrider.log.postgres.commit import Commit, Positions, Write, take_batch
from outrider.log.postgres.connections import WRITER_SETTINGS, Database, terminate
from outrider.log.postgres.schema import Connection
from outrider.log.postgres.statements import AppendOne, prepare

APPENDS_BEFORE_CONNECTION = 20
"""A loop that has appended less often has no connection: connecting takes as long as many appends."""
ANSWER_SECONDS = 10.0
"""The wait for an answer after which the writes go to the thread. A heartbeat looks: a timer would cost each append."""
LEAD_SECONDS = 0.002
"""How long queued writes wait for a task that waits for them, which then sends them."""


class LoopWriter:
    """Commits the appends of one event loop. Its methods are called in that loop, unless they say otherwise."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        database: Database,
        positions: Positions,
        finish: Callable[[Sequence[Write]], None],
        move: Callable[[LoopWriter], None],
    ) -> None:
        self.loop = loop
        self._database, self._positions = database, positions
        self._finish, self._move = finish, move
        self._context = contextvars.Context()  # what a task of the caller knows is not kept with a connection
        self._appends = 0
        self._connecting: asyncio.Task[None] | None = None
        self._connection: Connection | None = None
        self._append_one: AppendOne | None = None
        self._lifeline: AsyncGenerator[None] | None = None
        self._jobs: deque[Write] = deque()
        self._commit: Commit | None = None
        """What is being written."""
        self._is_serving = False
        self._began = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_ready(self) -> bool:
        """Whether it has a connection. Those that ask often enough get one soon."""
        if self._connection is not None and not self._connection.is_closed():
            return True
        self._appends += 1
        if self._appends >= APPENDS_BEFORE_CONNECTION and self._connecting is None:
            self._connecting = self.loop.create_task(self._connect(), context=self._context)
        return False

    def put(self, write: Write) -> None:
        """Queue a write. The task that waits for it first writes all that is queued then; without one, another does."""
        self._jobs.append(write)
        if not self._is_serving:
            assert isinstance(write.waiting, PendingWrite)
            write.waiting.lead = self._lead
            if self._timer is None:
                self._timer = self.loop.call_later(LEAD_SECONDS, self._lead_at_last)

    def take(self) -> list[Write | Commit]:
        """Remove and return what is not done, in order. The positions must be locked; from any thread."""
        taken: list[Write | Commit] = [self._commit.moved()] if self._commit else []
        taken += self._jobs
        self._commit = None
        self._jobs.clear()
        return taken

    @property
    def is_stuck(self) -> bool:
        """Whether writes wait for a loop that does not run, or for an answer that does not come; from any thread."""
        if not self._commit and not self._jobs:
            return False
        return not self.loop.is_running() or self._is_silent

    @property
    def _is_silent(self) -> bool:
        return self._is_serving and time.monotonic() - self._began > ANSWER_SECONDS

    def close(self) -> None:
        """Disconnect soon, from any thread. Only its loop may touch the connection, unless it cannot run any more."""
        try:
            self.loop.call_soon_threadsafe(self._end)
        except RuntimeError:  # it is closed
            self._end()

    def _lead_at_last(self) -> None:
        self._timer = None
        self._start_task()

    def _start_task(self) -> None:
        if self._jobs and not self._is_serving:
            self._task = self.loop.create_task(self._serve_all(), context=self._context)

    async def _serve_all(self) -> None:
        while self._jobs and not self._is_serving:
            await self._serve()

    async def _lead(self) -> None:
        if not self._is_serving:
            await self._serve()
            if self._jobs:  # they came meanwhile
                self._start_task()

    async def _serve(self) -> None:
        """Commit what is queued, together. Writes that cannot be committed here go to the thread."""
        self._is_serving, self._began = True, time.monotonic()
        try:
            if commit := self._next():
                self._settle(commit, await commit.write(self._connected()))
        except BaseException as error:
            self._drop()
            self._move(self)
            if not isinstance(error, Exception):
                raise
        finally:
            self._is_serving = False

    def _next(self) -> Commit | None:
        with self._positions.lock:
            writes = take_batch(self._jobs)
            self._commit = Commit(writes, self._positions, self._database, self._append_one) if writes else None
            return self._commit

    def _connected(self) -> Connection:
        if self._connection is None:
            raise ConnectionError("the log was closed")
        return self._connection

    def _settle(self, commit: Commit, errors: Sequence[LogError | None]) -> None:
        with self._positions.lock:
            if self._commit is not commit:
                return  # it was taken
            self._commit = None
            self._finish(commit.writes)
        done = zip(commit.writes, errors, strict=True)
        try:
            resolve_all([(write.waiting, each) for write, each in done if isinstance(write.waiting, PendingWrite)])
        except Exception as error:  # noqa: BLE001 - a callback of the caller has failed, not the write
            self.loop.call_exception_handler({"message": "a callback of a write failed", "exception": error})

    async def _connect(self) -> None:
        self._appends = 0
        try:
            if self._lifeline is None:
                self._lifeline = self._until_the_end()
                await anext(self._lifeline)
            connection = await self._database.connect(WRITER_SETTINGS, None)
            try:
                self._append_one = await prepare(connection)
            except BaseException:
                terminate(connection)
                raise
            self._connection = connection
        except Exception:  # noqa: BLE001 - the log's thread writes, and says what is wrong
            return
        finally:
            self._connecting = None

    async def _until_the_end(self) -> AsyncGenerator[None]:
        """Disconnect when the loop shuts down its asynchronous generators: it has no other hook for its end."""
        try:
            yield
        finally:
            self._drop()

    def _end(self) -> None:
        if self._connecting:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._connecting.cancel()
        if self._lifeline:
            with contextlib.suppress(StopIteration):
                self._lifeline.aclose().send(None)
        self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            terminate(connection)
