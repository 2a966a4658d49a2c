"""The one thread that writes to the log: what waits at the same moment is committed together."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from outrider.errors import LogError
from outrider.log.database import explained, open_for_writing
from outrider.log.write import Write, resolve_all

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
"""Changes the database within a transaction."""

TOGETHER = 512
"""How many pieces of work one commit may hold."""
ATTEMPTS = 3
"""How often a commit is tried while another process keeps the file busy, each as long as BUSY_SECONDS."""


class _Job(NamedTuple):
    work: Work[Any]
    waiting: Future[Any] | Write
    loop: asyncio.AbstractEventLoop | None = None


class _Outcome(NamedTuple):
    job: _Job
    value: Any = None
    error: BaseException | None = None


class Writer:
    """Does work on the database, in order, each piece committed and on disk before it counts as done.

    Its thread begins with the first piece. It beats while anything is held, and ends when there is nothing to do.
    """

    def __init__(self, path: Path, held: Mapping[int, int], beat: Work[None], every: float) -> None:
        self._path = path
        self._held, self._beat, self._every = held, beat, every
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.RLock()  # a finalizer may run, and use the writer, in the middle of using it
        self._process = os.getpid()
        self._using = threading.Lock()
        """Held while the connection is in use."""
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._last_beat = time.monotonic()
        _writers.add(self)

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
        with contextlib.suppress(LogError):
            self._put(_Job(work, Future()))

    def do_or_post(self, work: Work[None]) -> None:
        """Have it done, and wait, unless this is the writer's own thread, which a finalizer may have come to."""
        (self.post if threading.current_thread() is self._thread else self.do)(work)

    def close(self) -> None:
        """Finish what waits, and close the file."""
        if self._process != os.getpid():
            return
        with self._lock:
            thread = self._thread
            if thread is None:
                return
            self._jobs.put(None)
        if thread is not threading.current_thread():
            thread.join()

    def _put(self, job: _Job) -> None:
        if self._process != os.getpid():  # before the lock, which may have been held by a thread that is not here
            raise LogError("this Log was made before the process was forked; make another one here")
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._serve, name="outrider-log", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:
                    raise LogError(f"the log cannot be written: {error}") from None
                self._thread = thread
            self._jobs.put(job)

    def _serve(self) -> None:
        closing = False
        while True:
            try:
                job = self._jobs.get(timeout=self._every)
            except queue.Empty:
                if self._held:
                    self._show_life()
                elif self._retire():
                    return
                continue
            closing = closing or job is None
            if job is not None:
                _tell(self._commit(self._and_what_waits(job)))
            del job
            if closing and self._retire():
                return
            if self._held and time.monotonic() - self._last_beat >= self._every:
                self._show_life()

    def _and_what_waits(self, job: _Job) -> list[_Job]:
        jobs = [job]
        with contextlib.suppress(queue.Empty):
            while len(jobs) < TOGETHER:
                following = self._jobs.get_nowait()
                if following is None:
                    self._jobs.put(None)  # the end comes after what came before it
                    break
                jobs.append(following)
        return jobs

    def _retire(self) -> bool:
        """End the thread, unless there is something to do after all."""
        with self._lock:
            if not self._jobs.empty():
                return False
            self._thread = None
            with self._using:
                self._disconnect()
            return True

    def _show_life(self) -> None:
        self._last_beat = time.monotonic()
        self._commit([_Job(self._beat, Future())])  # that it failed will be told to whoever writes next

    def _commit(self, jobs: Sequence[_Job]) -> list[_Outcome]:
        """Do all of it in one transaction. A piece that fails is left out; if the transaction fails, all of them do."""
        with self._using:
            try:
                return self._transact(jobs)
            except BaseException as error:  # noqa: BLE001 - told to whoever waits; the thread must go on
                if isinstance(error, sqlite3.DatabaseError):
                    self._disconnect()
                said = self._in_words(error)
                return [_Outcome(job, error=said) for job in jobs]

    def _transact(self, jobs: Sequence[_Job]) -> list[_Outcome]:
        connection = self._connected()
        _begin(connection)
        try:
            if len(jobs) == 1:
                outcomes = [_Outcome(jobs[0], jobs[0].work(connection))]
            else:
                outcomes = [self._attempt(job, connection) for job in jobs]
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # SQLite may have rolled back by itself
                connection.execute("ROLLBACK")
            raise
        return outcomes

    def _attempt(self, job: _Job, connection: sqlite3.Connection) -> _Outcome:
        """One of several: if it fails, the others are not harmed."""
        connection.execute("SAVEPOINT job")
        try:
            value = job.work(connection)
        except Exception as error:
            if not connection.in_transaction:
                raise
            connection.execute("ROLLBACK TO job")
            connection.execute("RELEASE job")
            return _Outcome(job, error=self._in_words(error))
        connection.execute("RELEASE job")
        return _Outcome(job, value)

    def _connected(self) -> sqlite3.Connection:
        """The connection to the file that stands at the path now: a recovery may have put another there."""
        if self._connection is not None and _identity(self._path) != self._file:
            self._disconnect()
        if self._connection is None:
            self._connection = open_for_writing(self._path)
            self._file = _identity(self._path)
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _in_words(self, error: BaseException) -> LogError:
        if isinstance(error, LogError):
            return error
        if isinstance(error, sqlite3.Error):
            return explained(error, self._path)
        return LogError(f"the log {self._path} cannot be written: {type(error).__name__}: {error}")

    # SQLite knows in the memory of a process which files it has open, and does not survive a fork.

    def before_fork(self) -> None:
        """Have nothing open, and nothing going on, while the process is copied."""
        self._using.acquire()
        self._disconnect()

    def after_fork(self) -> None:
        """Go on, in the process that was copied."""
        self._using.release()


_writers: weakref.WeakSet[Writer] = weakref.WeakSet()
_pausing: list[Writer] = []


def _before_fork() -> None:
    _pausing[:] = list(_writers)
    for writer in _pausing:
        writer.before_fork()


def _after_fork() -> None:
    for writer in _pausing:
        writer.after_fork()
    _pausing.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


def _begin(connection: sqlite3.Connection) -> None:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            connection.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or attempt == ATTEMPTS:
                raise


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _tell(outcomes: Sequence[_Outcome]) -> None:
    """Tell whoever waits, each event loop once."""
    loops: dict[asyncio.AbstractEventLoop, list[tuple[Write, BaseException | None]]] = {}
    for (_, waiting, loop), value, error in outcomes:
        if isinstance(waiting, Write):
            assert loop
            loops.setdefault(loop, []).append((waiting, error))
        elif error is None:
            waiting.set_result(value)
        else:
            waiting.set_exception(error)
    for loop, writes in loops.items():
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody is there to hear it
            loop.call_soon_threadsafe(resolve_all, writes)
