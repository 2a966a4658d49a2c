"""A queue on DBOS and Postgres, for workers on many machines: batches are begun, filled, and their results read."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
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
from outrider.batches.executor import Executor
from outrider.batches.queue import MAX_ATTEMPTS, BatchSettings, BatchState, Run, check_same, given_up
from outrider.batches.retries import retried
from outrider.batches.task import Task, TaskResult, session_of
from outrider.struct_types import described

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
