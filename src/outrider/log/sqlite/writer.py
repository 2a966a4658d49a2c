"""The single thread that writes to the log. It commits all waiting jobs together."""

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
from outrider.log.pending_write import PendingWrite, resolve
from outrider.log.sqlite.database import explain, open_for_writing
from outrider.log.sqlite.wal import Tally

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
"""A function that changes the database within a transaction."""

BATCH = 512
"""The largest number of jobs in one commit."""
ATTEMPTS = 3
"""How often to try to start a transaction while another process is writing. Each attempt takes up to BUSY_SECONDS."""


class _Job(NamedTuple):
    work: Work[Any]
    waiting: Future[Any] | PendingWrite


class _Outcome(NamedTuple):
    job: _Job
    value: Any = None
    error: BaseException | None = None


class Writer:
    """Runs jobs on the database in order. A job is done once its commit is on disk.

    The first job starts the thread. While a session is held, the thread sends heartbeats. When idle, it ends.
    """

    def __init__(self, path: Path, held: Mapping[int, int], heartbeat: Work[None], interval: float) -> None:
        self._path = path
        self._held, self._heartbeat, self._interval = held, heartbeat, interval
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.RLock()  # re-entrant: a finalizer may use the writer while this thread is using it
        self._process = os.getpid()
        self._connection_lock = threading.Lock()
        """Held while the connection is in use."""
        self._connection: sqlite3.Connection | None = None
        self._tally = Tally(path)
        self._file: tuple[int, int] | None = None
        self._last_beat = time.monotonic()
        _writers.add(self)

    def submit(self, work: Work[None]) -> PendingWrite:
        """Queue work and return a handle for the running event loop."""
        write = PendingWrite(asyncio.get_running_loop())
        self._put(_Job(work, write))
        return write

    def run(self, work: Work[T]) -> T:
        """Queue work and wait for its result."""
        future: Future[T] = Future()
        self._put(_Job(work, future))
        return future.result()

    def post(self, work: Work[None]) -> None:
        """Queue work and return at once. Safe in finalizers."""
        with contextlib.suppress(LogError):
            self._put(_Job(work, Future()))

    def run_or_post(self, work: Work[None]) -> None:
        """Queue work and wait, except on the writer's own thread, where a finalizer may run."""
        (self.post if threading.current_thread() is self._thread else self.run)(work)

    def close(self) -> None:
        """Finish the queued jobs and close the file."""
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
        if self._process != os.getpid():  # before the lock: a thread of the parent process may have held it
            raise LogError("this Log was created before the process forked; create a new Log in the child process")
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
                job = self._jobs.get(timeout=self._interval)
            except queue.Empty:
                if self._held:
                    self._send_heartbeat()
                elif self._stop_if_idle():
                    return
                continue
            closing = closing or job is None
            if job is not None:
                resolve((done.job.waiting, done.value, done.error) for done in self._commit(self._batch(job)))
            del job
            if closing and self._stop_if_idle():
                return
            if self._held and time.monotonic() - self._last_beat >= self._interval:
                self._send_heartbeat()

    def _batch(self, job: _Job) -> list[_Job]:
        """Return the job and those that wait behind it."""
        jobs = [job]
        while len(jobs) < BATCH and not self._jobs.empty():  # no other thread takes from the queue
            following = self._jobs.get_nowait()
            if following is None:
                self._jobs.put(None)  # finish this batch before closing
                break
            jobs.append(following)
        return jobs

    def _stop_if_idle(self) -> bool:
        """Disconnect and return True if no job is queued."""
        with self._lock:
            if not self._jobs.empty():
                return False
            self._thread = None
            with self._connection_lock:
                self._disconnect()
            return True

    def _send_heartbeat(self) -> None:
        self._last_beat = time.monotonic()
        self._commit([_Job(self._heartbeat, Future())])  # the next write reports a failure

    def _commit(self, jobs: Sequence[_Job]) -> list[_Outcome]:
        """Run the jobs in one transaction. A failing job is rolled back alone; a failing transaction fails all jobs."""
        with self._connection_lock:
            try:
                return self._transact(jobs)
            except BaseException as error:  # noqa: BLE001 - passed to the callers; the thread must go on
                if isinstance(error, sqlite3.DatabaseError):
                    self._disconnect()
                failure = self._log_error(error)
                return [_Outcome(job, error=failure) for job in jobs]

    def _transact(self, jobs: Sequence[_Job]) -> list[_Outcome]:
        connection = self._connect()
        _begin(connection)
        try:
            if len(jobs) == 1:
                outcomes = [_Outcome(jobs[0], jobs[0].work(connection))]
            else:
                outcomes = [self._run_in_savepoint(job, connection) for job in jobs]
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # SQLite may have rolled back already
                connection.execute("ROLLBACK")
            raise
        self._tally.record()
        return outcomes

    def _run_in_savepoint(self, job: _Job, connection: sqlite3.Connection) -> _Outcome:
        """Run one job of a batch. Its failure does not affect the others."""
        connection.execute("SAVEPOINT job")
        try:
            value = job.work(connection)
        except Exception as error:
            if not connection.in_transaction:
                raise
            connection.execute("ROLLBACK TO job")
            connection.execute("RELEASE job")
            return _Outcome(job, error=self._log_error(error))
        connection.execute("RELEASE job")
        return _Outcome(job, value)

    def _connect(self) -> sqlite3.Connection:
        """Return a connection to the file that is at the path now; a recovery may have replaced it."""
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
        self._tally.close()

    def _log_error(self, error: BaseException) -> LogError:
        if isinstance(error, LogError):
            return error
        if isinstance(error, sqlite3.Error):
            return explain(error, self._path)
        return LogError(f"the log {self._path} cannot be written: {type(error).__name__}: {error}")

    # SQLite keeps its open files in process memory, and a connection must not be used after a fork.

    def before_fork(self) -> None:
        """Finish the current commit and close the file before the process forks."""
        self._connection_lock.acquire()
        self._disconnect()

    def after_fork(self) -> None:
        """Continue after a fork, in the parent and in the child."""
        self._connection_lock.release()


_writers: weakref.WeakSet[Writer] = weakref.WeakSet()
_paused: list[Writer] = []


def _before_fork() -> None:
    _paused[:] = list(_writers)
    for writer in _paused:
        writer.before_fork()


def _after_fork() -> None:
    for writer in _paused:
        writer.after_fork()
    _paused.clear()


if hasattr(os, "register_at_fork"):  # pragma: no branch - Windows has no fork
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


def _begin(connection: sqlite3.Connection) -> None:
    for _ in range(ATTEMPTS - 1):
        try:
            connection.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
    connection.execute("BEGIN IMMEDIATE")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
