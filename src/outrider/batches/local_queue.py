"""A queue in a file beside the log, for workers on one machine: `batch.db`."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from outrider.batches.queue import (
    MAX_ATTEMPTS,
    WAKE_SECONDS,
    BatchSettings,
    BatchState,
    Claim,
    Run,
    Unfinished,
    check_same,
    first_of,
    given_up,
)
from outrider.batches.task import Task, TaskResult
from outrider.errors import LogError
from outrider.filesystem import make_private, sync_folder
from outrider.log.holder import Holder
from outrider.struct_types import described

T = TypeVar("T")
BUSY_SECONDS = 30.0
"""How long to wait while another process writes."""
IDLE_SECONDS = 0.1
"""The pause before looking for work again."""
PARKED = "parked"
"""Stands for the worker of a task that waits for an answer."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS batch (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    created INTEGER NOT NULL,          -- counts up with every batch, independent of clocks
    settings TEXT NOT NULL,
    budget REAL,
    spent REAL NOT NULL DEFAULT 0,
    is_open INTEGER NOT NULL DEFAULT 1
);
CREATE INDEX IF NOT EXISTS batch_name ON batch (name, created);
CREATE TABLE IF NOT EXISTS task (
    batch TEXT NOT NULL,
    position INTEGER NOT NULL,
    id TEXT NOT NULL,
    body BLOB NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    worker TEXT NOT NULL DEFAULT '',   -- the process that runs it, empty if none does, 'parked' if it waits
    finished INTEGER,                  -- counts up with every result of the batch
    result BLOB,
    PRIMARY KEY (batch, id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS task_waiting ON task (batch, position) WHERE worker = '' AND finished IS NULL;
CREATE INDEX IF NOT EXISTS task_running ON task (batch, worker) WHERE worker != '';
CREATE UNIQUE INDEX IF NOT EXISTS task_finished ON task (batch, finished) WHERE finished IS NOT NULL;
CREATE TABLE IF NOT EXISTS parked (
    batch TEXT NOT NULL,
    task TEXT NOT NULL,
    questions TEXT NOT NULL,           -- their ids, as a JSON list
    deadline REAL,                     -- the first one, in seconds since the epoch
    result BLOB NOT NULL,
    PRIMARY KEY (batch, task)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS pace (provider TEXT PRIMARY KEY, next REAL NOT NULL);
"""
_CLAIM = """
UPDATE task SET worker = ?, attempt = attempt + 1
WHERE (batch, id) = (
    SELECT task.batch, task.id FROM batch JOIN task ON task.batch = batch.id
    WHERE batch.is_open AND (batch.budget IS NULL OR batch.spent < batch.budget)
        AND task.worker = '' AND task.finished IS NULL AND batch.id IN (SELECT value FROM json_each(?))
    ORDER BY batch.created, task.position LIMIT 1
)
RETURNING batch, body, attempt
"""
_FINISH = """
UPDATE task SET worker = '', result = :result,
    finished = (SELECT coalesce(max(finished), 0) + 1 FROM task WHERE batch = :batch AND finished IS NOT NULL)
WHERE batch = :batch AND id = :id AND worker = :worker AND attempt = :attempt AND finished IS NULL
"""


class LocalQueue:
    """Tasks and results in `batch.db`, in the folder of a log. Only its owner has access. See `Queue`.

    A worker is known by its process: if that has ended, its tasks are free. The hold on the task's session decides
    all the same, so that no two workers ever run one task.
    """

    def __init__(self, folder: str | os.PathLike[str], unanswered: Callable[[Sequence[str]], set[str]] = set) -> None:
        """`unanswered` returns those of some questions that still wait; without it, all of them."""
        self.path = Path(folder) / "batch.db"
        self._unanswered = unanswered
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._worker = msgspec.json.encode(Holder.current(os.urandom(8).hex())).decode()

    # Submitting

    def begin(self, name: str, settings: BatchSettings, *, resume: bool) -> str:
        stored = msgspec.json.encode(settings).decode()

        def work(connection: sqlite3.Connection) -> str:
            if resume:
                query = "SELECT id FROM batch WHERE name = ? ORDER BY created DESC LIMIT 1"
                if found := connection.execute(query, (name,)).fetchone():
                    change = "UPDATE batch SET settings = ?, budget = ?, is_open = 1 WHERE id = ?"
                    connection.execute(change, (stored, settings.budget, found[0]))
                    return str(found[0])
            batch = os.urandom(16).hex()
            connection.execute("UPDATE batch SET is_open = 0 WHERE name = ?", (name,))
            newest = "(SELECT coalesce(max(created), 0) + 1 FROM batch)"
            insert = f"INSERT INTO batch (id, name, created, settings, budget) VALUES (?, ?, {newest}, ?, ?)"
            connection.execute(insert, (batch, name, stored, settings.budget))
            return batch

        return self._write(work)

    def add(self, batch: str, tasks: Sequence[Task]) -> None:
        def work(connection: sqlite3.Connection) -> None:
            known = dict(connection.execute("SELECT id, body FROM task WHERE batch = ?", (batch,)).fetchall())
            for task in tasks:
                if task.id in known:
                    check_same(msgspec.json.decode(known[task.id], type=described(Task)), task)
            start = len(known)
            connection.executemany(
                "INSERT OR IGNORE INTO task (batch, position, id, body) VALUES (?, ?, ?, ?)",
                [(batch, start + index, task.id, msgspec.json.encode(task)) for index, task in enumerate(tasks)],
            )

        self._write(work)

    def results(self, batch: str, after: int) -> tuple[list[TaskResult], int]:
        query = "SELECT finished, result FROM task WHERE batch = ? AND finished > ? ORDER BY finished LIMIT 1000"
        rows = self._read(lambda connection: connection.execute(query, (batch, after)).fetchall())
        found = [msgspec.json.decode(body, type=described(TaskResult)) for _, body in rows]
        return found, rows[-1][0] if rows else after

    def state(self, batch: str) -> BatchState:
        counts = "SELECT count(*), count(finished), count(nullif(worker, '')), total(worker = ?) FROM task"

        def work(connection: sqlite3.Connection) -> BatchState:
            row = connection.execute(f"{counts} WHERE batch = ?", (PARKED, batch)).fetchone()
            total, finished, taken, waiting = map(int, row)
            spent, budget = connection.execute("SELECT spent, budget FROM batch WHERE id = ?", (batch,)).fetchone()
            return BatchState(total, finished, taken - waiting, spent, budget, waiting)

        return self._read(work)

    def waiting(self, batch: str) -> list[TaskResult]:
        query = (
            "SELECT parked.result FROM parked JOIN task USING (batch) WHERE id = task AND batch = ? ORDER BY position"
        )
        rows = self._read(lambda connection: connection.execute(query, (batch,)).fetchall())
        return [msgspec.json.decode(body, type=described(TaskResult)) for (body,) in rows]

    def wake(self) -> int:
        query = "SELECT batch, task, questions, deadline FROM parked JOIN batch ON id = batch WHERE is_open"
        found = self._read(lambda connection: connection.execute(query).fetchall())
        if not found:
            return 0
        parked = [(batch, task, json.loads(ids), late) for batch, task, ids, late in found]
        # After the tasks: a question is stored before its task is parked.
        open_ids, now = self._unanswered([each for _, _, ids, _ in parked for each in ids]), time.time()
        ready = [
            (batch, task)
            for batch, task, ids, late in parked
            if not open_ids.issuperset(ids) or (late is not None and late <= now)
        ]

        def work(connection: sqlite3.Connection) -> None:
            connection.executemany("DELETE FROM parked WHERE batch = ? AND task = ?", ready)
            change = f"UPDATE task SET worker = '' WHERE batch = ? AND id = ? AND worker = '{PARKED}'"
            connection.executemany(change, ready)

        if ready:
            self._write(work)
        return len(ready)

    def end(self, batch: str) -> None:
        self._write(lambda connection: connection.execute("UPDATE batch SET is_open = 0 WHERE id = ?", (batch,)))

    # Sharing

    def spend(self, batch: str, dollars: float) -> None:
        change = "UPDATE batch SET spent = spent + ? WHERE id = ?"
        self._write(lambda connection: connection.execute(change, (dollars, batch)))

    def is_spent(self, batch: str) -> bool:
        query = "SELECT 1 FROM batch WHERE id = ? AND spent >= budget"
        return self._read(lambda connection: connection.execute(query, (batch,)).fetchone()) is not None

    def reserve(self, provider: str, interval: float) -> float:
        def work(connection: sqlite3.Connection) -> float:
            now = time.time()
            found = connection.execute("SELECT next FROM pace WHERE provider = ?", (provider,)).fetchone()
            slot = max(now, found[0] if found else now)
            if interval:
                connection.execute("INSERT OR REPLACE INTO pace VALUES (?, ?)", (provider, slot + interval))
            return float(slot - now)

        return self._write(work) if interval else self._read(work)

    def block(self, provider: str, seconds: float) -> None:
        change = "INSERT INTO pace VALUES (?, ?) ON CONFLICT DO UPDATE SET next = max(next, excluded.next)"
        self._write(lambda connection: connection.execute(change, (provider, time.time() + seconds)))

    # Working

    def release(self, pid: int) -> None:
        """Do nothing: workers find out by themselves that another one has ended."""

    async def work(self, run: Run, stop: asyncio.Event, *, batch: str = "", tools: Iterable[str] = ()) -> None:
        offered = frozenset(tools)
        running: set[asyncio.Task[None]] = set()
        searched = 0.0
        try:
            while not stop.is_set():
                if time.monotonic() - searched > WAKE_SECONDS:
                    searched = time.monotonic()
                    await asyncio.to_thread(self._free_tasks_of_dead_workers)
                    await asyncio.to_thread(self.wake)
                if claim := await self._claimed(batch, offered, len(running)):
                    task = asyncio.ensure_future(self._run(run, claim))
                    running.add(task)
                    task.add_done_callback(running.discard)
                else:
                    await first_of(stop.wait(), *running, seconds=IDLE_SECONDS)
            if running:
                await asyncio.wait(running)
        finally:
            for task in running:
                task.cancel()
            if running:
                await asyncio.wait(running)

    async def _claimed(self, batch: str, tools: frozenset[str], running: int) -> Claim | None:
        """Take the first task that waits, if any. A task that is taken while this is cancelled goes back."""
        claiming = asyncio.ensure_future(asyncio.to_thread(self._claim, batch, tools, running))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:  # the thread goes on
            with suppress(LogError):
                if claim := await claiming:
                    await asyncio.to_thread(self._put_back, claim)
            raise

    async def _run(self, run: Run, claim: Claim) -> None:
        """Run one task and store its result, park it, or put it back."""
        try:
            result = await run(claim)
        except (Unfinished, asyncio.CancelledError) as stopped:
            await asyncio.to_thread(self._put_back, claim)
            if isinstance(stopped, asyncio.CancelledError):
                raise
        else:
            store = self._park if result.status == "waiting" else self._finish
            await asyncio.to_thread(store, claim, result)

    def _open_batches(self, batch: str, tools: frozenset[str], running: int) -> dict[str, BatchSettings]:
        """Return the batches from which this worker can take one more task, by id."""

        def work(connection: sqlite3.Connection) -> list[tuple[str, str]]:
            query = "SELECT id, settings FROM batch WHERE is_open AND (? = '' OR id = ?)"
            return connection.execute(query, (batch, batch)).fetchall()

        found = {name: msgspec.json.decode(text, type=described(BatchSettings)) for name, text in self._read(work)}
        return {key: each for key, each in found.items() if running < each.concurrency and tools.issuperset(each.tools)}

    def _claim(self, batch: str, tools: frozenset[str], running: int) -> Claim | None:
        """Take the first task that waits, if any."""
        usable = self._open_batches(batch, tools, running)
        if not usable:
            return None
        ids = msgspec.json.encode(list(usable)).decode()

        def look(connection: sqlite3.Connection) -> bool:
            query = "SELECT 1 FROM task WHERE batch = ? AND worker = '' AND finished IS NULL LIMIT 1"
            return any(connection.execute(query, (each,)).fetchone() for each in usable)

        if not self._read(look):  # most workers are idle at the end of a batch: they should not lock the file
            return None
        row = self._write(lambda connection: connection.execute(_CLAIM, (self._worker, ids)).fetchone())
        if row is None:
            return None
        taken, body, attempt = row
        return Claim(taken, msgspec.json.decode(body, type=described(Task)), attempt, usable[taken])

    def _finish(self, claim: Claim, result: TaskResult) -> None:
        """Store the result, unless the task was taken from this worker meanwhile."""
        self._write(lambda connection: _finish(connection, claim.batch, result, self._worker, claim.attempt))

    def _put_back(self, claim: Claim) -> None:
        """Let another worker take the task."""
        self._write(lambda connection: self._leave(connection, claim, ""))

    def _park(self, claim: Claim, result: TaskResult) -> None:
        """Let no worker have the task until it is woken."""
        ids, deadline = result.awaited
        row = (claim.batch, claim.task.id, json.dumps(ids), deadline, msgspec.json.encode(result))

        def work(connection: sqlite3.Connection) -> None:
            if self._leave(connection, claim, PARKED):
                connection.execute("INSERT OR REPLACE INTO parked VALUES (?, ?, ?, ?, ?)", row)

        self._write(work)

    def _leave(self, connection: sqlite3.Connection, claim: Claim, worker: str) -> bool:
        """Take the task from this worker, if it still has it. An attempt that was stopped does not count."""
        change = """
            UPDATE task SET worker = ?, attempt = attempt - 1
            WHERE batch = ? AND id = ? AND worker = ? AND attempt = ?
        """
        values = (worker, claim.batch, claim.task.id, self._worker, claim.attempt)
        return connection.execute(change, values).rowcount == 1

    def _free_tasks_of_dead_workers(self) -> None:
        """Put the tasks of workers that have ended back, and end those that have killed too many workers."""
        query = "SELECT DISTINCT worker FROM task WHERE worker != ''"
        workers = [worker for (worker,) in self._read(lambda connection: connection.execute(query).fetchall())]
        dead = [worker for worker in workers if worker not in (self._worker, PARKED) and _has_ended(worker)]
        if not dead:
            return

        def work(connection: sqlite3.Connection) -> None:
            for worker in dead:
                rows = connection.execute(
                    "SELECT batch, body, attempt FROM task WHERE worker = ? AND attempt >= ?", (worker, MAX_ATTEMPTS)
                ).fetchall()
                for batch, body, attempt in rows:
                    result = given_up(batch, msgspec.json.decode(body, type=described(Task)), attempt)
                    _finish(connection, batch, result, worker, attempt)
                connection.execute("UPDATE task SET worker = '' WHERE worker = ?", (worker,))

        self._write(work)

    # The file

    def close(self) -> None:
        """Close the file. The next use opens it again."""
        with self._lock:
            if self._connection:
                self._connection.close()
                self._connection = None

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            try:
                return work(self._opened())
            except sqlite3.Error as error:
                raise self._explained(error) from error

    def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do the work in one commit, which is on disk when this returns."""
        with self._lock:
            try:
                connection = self._opened()
                connection.execute("BEGIN IMMEDIATE")
                try:
                    value = work(connection)
                    connection.execute("COMMIT")
                except BaseException:
                    with suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")
                    raise
                return value
            except sqlite3.Error as error:
                raise self._explained(error) from error

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            make_private(self.path.parent)
            is_new = not self.path.exists()
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            connection = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.executescript(_SCHEMA)
            if is_new:
                sync_folder(self.path.parent)
            self._connection = connection
        return self._connection

    def _explained(self, error: sqlite3.Error) -> LogError:
        return LogError(f"the batches in {self.path} cannot be used: {error}")


def _finish(connection: sqlite3.Connection, batch: str, result: TaskResult, worker: str, attempt: int) -> None:
    body = msgspec.json.encode(result)
    values = {"batch": batch, "id": result.id, "result": body, "worker": worker, "attempt": attempt}
    connection.execute(_FINISH, values)


def _has_ended(worker: str) -> bool:
    return msgspec.json.decode(worker, type=described(Holder)).is_alive() is False
