"""The one thread that writes to the log: what waits at the same moment is committed together."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from outrider.errors import LogError
from outrider.log.database import explained, open_for_writing

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
"""Changes the database within a transaction. May be called again if that was rolled back."""

TOGETHER = 512
"""How many pieces of work one commit may hold."""
ATTEMPTS = 3
"""How often a commit is tried while another process keeps the file busy, each as long as BUSY_SECONDS."""


class Write:
    """Work on its way to the disk, seen from an event loop. To cancel whoever waits for it does not cancel it."""

    __slots__ = ("_then", "_waiters", "done", "error")

    def __init__(self) -> None:
        self.done = False
        self.error: BaseException | None = None
        """Why it failed, once it is done."""
        self._then: list[Callable[[], None]] = []
        self._waiters: list[asyncio.Future[None]] = []

    def then(self, callback: Callable[[], None]) -> None:
        """Have this called when it is done."""
        self._then.append(callback)

    async def finished(self) -> None:
        """Wait until it is on disk, or raise what went wrong. A cancel that comes meanwhile takes effect afterwards."""
        cancelled: asyncio.Task[Any] | None = None
        while not self.done:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if cancelled := asyncio.current_task():
                    cancelled.uncancel()
        if cancelled:
            cancelled.cancel()
        if self.error:
            raise self.error

    def resolve(self, error: BaseException | None) -> None:
        """It is done; called on the event loop."""
        self.done, self.error = True, error
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        for callback in self._then:
            callback()


class _Job(NamedTuple):
    work: Work[Any]
    future: Future[Any] | Write
    loop: asyncio.AbstractEventLoop | None = None


class _Outcome(NamedTuple):
    job: _Job
    value: Any
    error: BaseException | None


class Writer:
    """Does work on the database, in order, each piece committed and on disk before it counts as done."""

    def __init__(self, path: Path, *, every: float, pulse: Work[None]) -> None:
        self._path = path
        self._every, self._pulse = every, pulse
        """Work that is to be done again and again while `beating`, and after how many seconds."""
        self.beating = False
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._process = os.getpid()
        self._connection: sqlite3.Connection | None = None
        self._last_pulse = time.monotonic()

    def send(self, work: Work[None]) -> Write:
        """Have it done, and tell the running loop."""
        write = Write()
        self._put(_Job(work, write, asyncio.get_running_loop()))
        return write

    def do(self, work: Work[T]) -> T:
        """Have it done, and wait."""
        future: Future[T] = Future()
        self._put(_Job(work, future))
        return future.result()

    def post(self, work: Work[None]) -> None:
        """Have it done some time; nobody waits. Safe while objects are being destroyed."""
        self._put(_Job(work, Future()))

    def close(self) -> None:
        """Finish what waits, and close the file."""
        with self._starting:
            thread, self._thread = self._thread, None
            if thread and self._process == os.getpid():
                self._jobs.put(None)
                thread.join()

    def _put(self, job: _Job) -> None:
        if self._thread is None or self._process != os.getpid():
            self._start()
        self._jobs.put(job)

    def _start(self) -> None:
        with self._starting:
            if self._process != os.getpid():
                raise LogError("the log was opened before this process was forked; open it again here")
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="outrider-log", daemon=True)
                self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=self._every if self.beating else None)
            except queue.Empty:
                self._beat()
                continue
            if job is None:
                break
            waiting, ends = self._and_what_waits(job)
            _tell(self._commit(waiting))
            del job, waiting
            if ends:
                break
            if self.beating and time.monotonic() - self._last_pulse >= self._every:
                self._beat()
        if self._connection:
            self._connection.close()
            self._connection = None

    def _and_what_waits(self, job: _Job) -> tuple[list[_Job], bool]:
        jobs = [job]
        with contextlib.suppress(queue.Empty):
            while len(jobs) < TOGETHER:
                following = self._jobs.get_nowait()
                if following is None:
                    return jobs, True
                jobs.append(following)
        return jobs, False

    def _beat(self) -> None:
        self._last_pulse = time.monotonic()
        self._commit([_Job(self._pulse, Future())])  # that it failed will be told to whoever writes next

    def _commit(self, jobs: Sequence[_Job]) -> list[_Outcome]:
        """Do all of it in one transaction; if that fails, each piece in one of its own."""
        try:
            values = self._transact([job.work for job in jobs])
        except BaseException as error:  # noqa: BLE001 - told to whoever waits; the thread must go on
            if len(jobs) == 1:
                return [_Outcome(jobs[0], None, self._in_words(error))]
            return [outcome for job in jobs for outcome in self._commit([job])]
        return [_Outcome(job, value, None) for job, value in zip(jobs, values, strict=True)]

    def _transact(self, works: Sequence[Work[Any]]) -> list[Any]:
        if self._connection is None:
            self._connection = open_for_writing(self._path)
        connection = self._connection
        _begin(connection)
        try:
            values = [work(connection) for work in works]
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # SQLite may have rolled back by itself
                connection.execute("ROLLBACK")
            raise
        return values

    def _in_words(self, error: BaseException) -> BaseException:
        return explained(error, self._path) if isinstance(error, sqlite3.Error) else error


def _begin(connection: sqlite3.Connection) -> None:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            connection.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or attempt == ATTEMPTS:
                raise


def _tell(outcomes: Sequence[_Outcome]) -> None:
    """Tell whoever waits, each event loop once."""
    loops: dict[asyncio.AbstractEventLoop, list[_Outcome]] = {}
    for outcome in outcomes:
        if outcome.job.loop is None:
            _resolve([outcome])
        else:
            loops.setdefault(outcome.job.loop, []).append(outcome)
    for loop, told in loops.items():
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody is there to hear it
            loop.call_soon_threadsafe(_resolve, told)


def _resolve(outcomes: Sequence[_Outcome]) -> None:
    for job, value, error in outcomes:
        if isinstance(job.future, Write):
            job.future.resolve(error)
        elif error is None:
            job.future.set_result(value)
        else:
            job.future.set_exception(error)
