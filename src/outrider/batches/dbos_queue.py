"""A queue on DBOS and Postgres, for workers on many machines: batches are begun, filled, and their results read."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import msgspec

from outrider.batches.dbos_tasks import (
    LEASE_SECONDS,
    WORKFLOW,
    DbosTasks,
    application_of,
    explaining,
    migrate,
    queue_of,
    version_of,
    workflow_of,
)
from outrider.batches.queue import (
    MAX_ATTEMPTS,
    WAKE_SECONDS,
    BatchSettings,
    BatchState,
    Run,
    check_same,
    first_of,
    given_up,
    retried,
)
from outrider.batches.task import Task, TaskResult, session_of
from outrider.errors import ConfigError, LogError
from outrider.struct_types import described

BEATS = 5
"""Heartbeats in one lease."""
OUTCOME_SECONDS = 10
"""How long DBOS may take to store the outcomes of workflows that have ended."""
IDLE_SECONDS = 0.05
"""The pause before looking again whether workflows still run."""
SCHEDULE_SECONDS = 600.0
"""How often DBOS looks for schedules. There are none."""
CONNECTIONS = 3
"""Connections of one executor to the tables of DBOS."""
POLL_SECONDS, BULK_POLL_SECONDS, BULK = 0.1, 0.2, 10
"""How often an executor with room asks for tasks; one that runs so many at once takes several at a time."""
OVERLAP_SECONDS = 60
"""Results are looked for from so long before the newest one: commits are not in the order of their times."""
_ENDED = ("SUCCESS", "ERROR", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")
_COUNTS = "SELECT status, count(*) FROM dbos.workflow_status WHERE starts_with(workflow_uuid, %s) GROUP BY status"
"""By the id, because a workflow that was cancelled is in no queue."""
_ENDED_IN = """
    SELECT workflow_uuid FROM dbos.workflow_status
    WHERE starts_with(workflow_uuid, %s) AND status = ANY(%s)
"""
_ENQUEUE = """
    SELECT dbos.enqueue_workflow(
        workflow_name => %s, queue_name => %s, app_version => %s, application_name => %s,
        positional_args => ARRAY[to_json(%s::text), to_json(body)], workflow_id => id
    ) FROM (SELECT * FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS task (id, body, n) ORDER BY n) AS task
"""
"""The function of DBOS for clients in SQL, for all tasks at once. Enqueuing them one by one takes ten times as long."""


class Executor:
    """Takes workflows from DBOS queues and runs them on the event loop of the caller.

    DBOS is one for a process: two executors cannot live at the same time.
    """

    def __init__(self, tasks: DbosTasks, run: Run, application: str, batch: str) -> None:
        self.id = tasks.new_executor()
        self._tasks, self._run = tasks, run
        self._application, self._batch = application, batch
        self._running: set[Future[str | None]] = set()
        self._is_lost = asyncio.Event()
        self._stop_events: list[threading.Event] = []
        """Set to let DBOS take no more workflows."""

    async def live(self, stop: asyncio.Event) -> None:
        """Run workflows until `stop` is set, then finish those that run. Returns early if the lease was lost.

        A cancel puts the workflows that run back into their queues.
        """
        await retried(self._tasks.register, self.id)
        self._create(asyncio.get_running_loop())
        launching = asyncio.ensure_future(asyncio.to_thread(self._tasks.launch))
        try:
            await asyncio.shield(launching)
        except BaseException:
            await asyncio.wait([launching])  # DBOS would go on without a heartbeat
            await asyncio.shield(self._abandon())
            raise
        beating = [asyncio.ensure_future(each) for each in (self._beat(), self._wake())]
        try:
            await first_of(stop.wait(), self._is_lost.wait())
            if not self._is_lost.is_set():
                await self._drained()
        except asyncio.CancelledError:
            await asyncio.shield(self._abandon())
            raise
        else:
            await self._abandon()
        finally:
            for each in beating:
                each.cancel()

    def _create(self, loop: asyncio.AbstractEventLoop) -> None:
        """Create DBOS with the one workflow that it has."""
        from dbos import DBOS

        if DBOS.executor_id not in ("local", "") and _is_launched():
            raise ConfigError("this process works for another batch already; DBOS is one for a process")
        dbos = DBOS(
            config={
                "name": self._application,
                "system_database_url": self._tasks.url,
                "executor_id": self.id,
                "application_version": version_of(self._application),
                "log_level": "CRITICAL",
                "sys_db_pool_size": CONNECTIONS,
                "run_migrations": False,
                "scheduler_polling_interval_sec": SCHEDULE_SECONDS,
            }
        )

        async def outrider_task(batch: str, body: str) -> str | None:
            assert DBOS.workflow_id
            work = self._tasks.run_claimed(self._run, batch, body, DBOS.workflow_id)
            running = asyncio.run_coroutine_threadsafe(work, loop)
            self._running.add(running)
            running.add_done_callback(self._running.discard)
            return await asyncio.wrap_future(running)

        DBOS.workflow(name=WORKFLOW, max_recovery_attempts=MAX_ATTEMPTS - 1)(outrider_task)
        self._stop_events = dbos.background_thread_stop_events
        if self._batch:
            DBOS.listen_queues([queue_of(self._batch)])

    async def _beat(self) -> None:
        """Renew the lease, and look for executors that have lost theirs."""
        while True:
            await asyncio.sleep(self._tasks.lease / BEATS)
            try:
                if not await asyncio.to_thread(self._tasks.beat, self.id):
                    self._is_lost.set()
                    return
                await asyncio.to_thread(self._tasks.recover_dead)
            except LogError:
                continue  # the database is away: so are its clock and the leases of the others

    async def _wake(self) -> None:
        """Look for parked workflows that can go on."""
        while True:
            await asyncio.sleep(WAKE_SECONDS)
            with suppress(LogError):
                await asyncio.to_thread(self._tasks.wake)

    async def _drained(self) -> None:
        """Take no more workflows, and wait for those that run."""
        for event in self._stop_events:
            event.set()
        while self._running and not self._is_lost.is_set():  # noqa: ASYNC110 - the end comes from another thread
            await asyncio.sleep(IDLE_SECONDS)

    async def _abandon(self) -> None:
        """End. Others take workflows that still run: DBOS refuses the outcomes of this executor then."""
        if running := list(self._running):
            with suppress(LogError):
                await asyncio.to_thread(self._tasks.recover, self.id)
            for each in running:
                each.cancel()
        await asyncio.to_thread(_destroy, 0 if running else OUTCOME_SECONDS)
        with suppress(LogError):  # the lease expires anyway
            await asyncio.to_thread(self._tasks.recover, self.id)
            await asyncio.to_thread(self._tasks.remove, self.id)


def _destroy(seconds: int) -> None:
    from dbos import DBOS

    DBOS.destroy(destroy_registry=True, workflow_completion_timeout_sec=seconds)


def _is_launched() -> bool:
    from dbos._dbos import _dbos_global_instance

    return _dbos_global_instance is not None


class DbosQueue(DbosTasks):
    """One DBOS queue a batch, one workflow a task. `Queue` describes its methods."""

    def __init__(self, url: str, *, lease: float = LEASE_SECONDS) -> None:
        super().__init__(url, lease)
        self._seen: dict[str, set[str]] = {}
        """The ids of the workflows whose results were returned, by batch."""
        self._newest: dict[str, int] = {}
        """When the newest of them completed, in milliseconds."""

    # Submitting

    @explaining
    def begin(self, name: str, settings: BatchSettings, *, resume: bool) -> str:
        application = application_of(settings.tools)
        self.query("SELECT 1")  # says why the database cannot be reached, which DBOS does not
        migrate(self.url)
        batch = self.reopen(name, application, settings) if resume else None
        if batch is None:
            batch = os.urandom(16).hex()
            for replaced in self.insert(batch, name, application, settings):
                self._cancel_waiting(replaced)
        client = self._client(application)
        client.register_queue(
            queue_of(batch),
            worker_concurrency=settings.concurrency,
            polling_interval_sec=POLL_SECONDS if settings.concurrency < BULK else BULK_POLL_SECONDS,
            on_conflict="always_update",
        )
        stopped = client.list_workflows(workflow_id_prefix=workflow_of(batch, ""), status="CANCELLED", load_input=False)
        parked = {each for (each,) in self.query("SELECT workflow FROM outrider_batch.parked WHERE batch = %s", batch)}
        if ids := [each.workflow_id for each in stopped if each.workflow_id not in parked]:
            client.resume_workflows(ids, queue_name=queue_of(batch))
        return batch

    @explaining
    def add(self, batch: str, tasks: Sequence[Task]) -> None:
        """Add the tasks that the batch does not have yet, all or none."""
        settings, _ = self.batch(batch)
        application = application_of(settings.tools)
        client = self._client(application)
        known = {
            each.workflow_id: _task_of(each)
            for each in client.list_workflows(workflow_id_prefix=workflow_of(batch, ""), load_output=False)
        }
        new: dict[str, str] = {}
        for task in tasks:
            workflow = workflow_of(batch, task.id)
            if stored := known.get(workflow):
                check_same(stored, task)
            else:
                new[workflow] = msgspec.json.encode(task).decode()
        names = (WORKFLOW, queue_of(batch), version_of(application), application)
        self.query(_ENQUEUE, *names, batch, list(new), list(new.values()))

    @explaining
    def results(self, batch: str, after: int) -> tuple[list[TaskResult], int]:
        if after == 0:
            self._seen[batch], self._newest[batch] = set(), 0
        found = self._ended(batch, self._newest[batch])
        if not found and self._counts(batch)[0] > len(self._seen[batch]):
            found = self._ended(batch, 0)
        self._seen[batch].update(each.workflow_id for each in found)
        self._newest[batch] = max((each.completed_at or 0 for each in found), default=self._newest[batch])
        return [_result_of(batch, each) for each in found], len(self._seen[batch])

    def _ended(self, batch: str, since: int) -> list[Any]:
        """Return the workflows that have ended, without those that were returned already."""
        values: list[object] = [workflow_of(batch, ""), list(_ENDED)]
        after = " AND completed_at >= %s" if since else ""
        rows = self.query(_ENDED_IN + after, *values, *([since - 1000 * OVERLAP_SECONDS] if since else []))
        new = [workflow for (workflow,) in rows if workflow not in self._seen[batch]]
        return self._client("").list_workflows(workflow_ids=new) if new else []

    @explaining
    def state(self, batch: str) -> BatchState:
        self.recover_dead()
        settings, spent = self.batch(batch)
        finished, running, total = self._counts(batch)
        waiting = self.query("SELECT count(*) FROM outrider_batch.parked WHERE batch = %s", batch)[0][0]
        return BatchState(total, finished, running, spent, settings.budget, waiting)

    def waiting(self, batch: str) -> list[TaskResult]:
        rows = self.query("SELECT result FROM outrider_batch.parked WHERE batch = %s ORDER BY workflow", batch)
        return [msgspec.json.decode(body, type=described(TaskResult)) for (body,) in rows]

    def _counts(self, batch: str) -> tuple[int, int, int]:
        counts: dict[str, int] = dict(self.query(_COUNTS, workflow_of(batch, "")))
        return sum(counts.get(each, 0) for each in _ENDED), counts.get("PENDING", 0), sum(counts.values())

    @explaining
    def end(self, batch: str) -> None:
        self.close_batch(batch)
        self._client("").delete_queue(queue_of(batch))

    def _cancel_waiting(self, batch: str) -> None:
        client = self._client("")
        waiting = client.list_workflows(queue_name=queue_of(batch), status="ENQUEUED", load_input=False)
        if waiting:
            client.cancel_workflows([each.workflow_id for each in waiting])
        self.query("DELETE FROM outrider_batch.parked WHERE batch = %s RETURNING 1", batch)
        with suppress(Exception):
            client.delete_queue(queue_of(batch))

    # Working

    async def work(self, run: Run, stop: asyncio.Event, *, batch: str = "", tools: Iterable[str] = ()) -> None:
        """Run tasks of one batch, or of all that need these tools, until `stop` is set; then finish those that run."""
        application = application_of(tools)
        await retried(self._migrate)
        while not stop.is_set():
            await Executor(self, run, application, batch).live(stop)

    @explaining
    def _migrate(self) -> None:
        """Create the tables of DBOS if there are none. A worker's role may lack the right to change them."""
        if not self.query("SELECT to_regclass('dbos.workflow_status')::text")[0][0]:
            migrate(self.url)


def _task_of(workflow: Any) -> Task | None:
    arguments: Sequence[Any] = workflow.input["args"] if workflow.input else ()
    return msgspec.json.decode(arguments[1], type=described(Task)) if len(arguments) > 1 else None


def _result_of(batch: str, workflow: Any) -> TaskResult:
    """Return the result that a workflow has ended with."""
    if workflow.status == "SUCCESS" and isinstance(workflow.output, str):
        return msgspec.json.decode(workflow.output, type=described(TaskResult))
    task = _task_of(workflow) or Task("", id=workflow.workflow_id.partition("/")[2])
    if workflow.status == "MAX_RECOVERY_ATTEMPTS_EXCEEDED":
        return given_up(batch, task, MAX_ATTEMPTS)
    session = session_of(batch, task.id)
    return TaskResult(task.id, "error", error=f"the workflow failed: {workflow.error}", session=session)
