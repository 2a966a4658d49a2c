"""A queue on DBOS and Postgres, for workers on many machines: one workflow a task, one DBOS queue a batch.

DBOS hands out tasks and stores results. It does not notice that an executor has died: leases do, and then DBOS's own
recovery gives the workflows of the dead executor to others.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import wraps
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import msgspec

from outrider.batches.local_queue import check_same, given_up
from outrider.batches.patience import patiently
from outrider.batches.postgres_ledger import PostgresLedger, denied
from outrider.batches.queue import MAX_ATTEMPTS, BatchSettings, BatchState, Claim, Run, Unfinished
from outrider.batches.task import Task, TaskResult, session_of
from outrider.errors import ConfigError, LogError, OutriderError
from outrider.struct_types import described

if TYPE_CHECKING:
    from dbos import DBOSClient

WORKFLOW = "outrider_task"
LEASE_SECONDS = 15.0
"""How long an executor is taken for alive that does not renew its lease."""
POLL_SECONDS, BULK_POLL_SECONDS, BULK = 0.1, 0.2, 10
"""How often an executor with room asks for tasks; one that runs so many at once takes several at a time."""
OVERLAP_SECONDS = 60
"""Results are looked for from so long before the newest one: commits are not in the order of their times."""
_INSUFFICIENT_PRIVILEGE = "42501"
"""A code of SQL."""
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
_CLAIMED = """
    SELECT settings, spent, recovery_attempts FROM outrider_batch.batch, dbos.workflow_status
    WHERE id = %s AND workflow_uuid = %s
"""


P = ParamSpec("P")
T = TypeVar("T")


def _explaining(function: Callable[P, T]) -> Callable[P, T]:
    """Let a function raise LogError if DBOS cannot reach its database."""

    @wraps(function)
    def explained(*arguments: P.args, **options: P.kwargs) -> T:
        try:
            return function(*arguments, **options)
        except OutriderError:
            raise
        except Exception as error:
            cause = getattr(error, "orig", error)  # of SQLAlchemy
            if getattr(cause, "sqlstate", None) == _INSUFFICIENT_PRIVILEGE:
                raise denied(cause) from None
            if type(error).__module__.startswith(("sqlalchemy", "psycopg", "dbos")):
                raise LogError(f"DBOS cannot use its database: {type(error).__name__}") from error
            raise

    return explained


class DbosQueue(PostgresLedger):
    """Tasks as DBOS workflows. The id of a workflow is the batch and the task."""

    def __init__(self, url: str, *, lease: float = LEASE_SECONDS) -> None:
        super().__init__(url)
        self._lease = lease
        self._clients: dict[str, DBOSClient] = {}
        self._seen: dict[str, set[str]] = {}
        """The ids of the workflows whose results were returned, by batch."""
        self._newest: dict[str, int] = {}
        """When the newest of them completed, in milliseconds."""

    # Submitting

    @_explaining
    def begin(self, name: str, settings: BatchSettings, *, resume: bool) -> str:
        """Start a batch, or continue the newest one of this name with `resume`. Return its id."""
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
        if stopped:
            client.resume_workflows([each.workflow_id for each in stopped], queue_name=queue_of(batch))
        return batch

    @_explaining
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

    @_explaining
    def results(self, batch: str, after: int) -> tuple[list[TaskResult], int]:
        """Return the results since a mark, which is 0 at the beginning, and the next mark."""
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

    @_explaining
    def state(self, batch: str) -> BatchState:
        """Return where the batch stands."""
        self.recover_dead()
        settings, spent = self.batch(batch)
        finished, running, total = self._counts(batch)
        return BatchState(total, finished, running, spent, settings.budget)

    def _counts(self, batch: str) -> tuple[int, int, int]:
        counts: dict[str, int] = dict(self.query(_COUNTS, workflow_of(batch, "")))
        return sum(counts.get(each, 0) for each in _ENDED), counts.get("PENDING", 0), sum(counts.values())

    @_explaining
    def end(self, batch: str) -> None:
        """Mark a batch as ended: workers leave it alone."""
        self.close_batch(batch)
        self._client("").delete_queue(queue_of(batch))

    def _cancel_waiting(self, batch: str) -> None:
        client = self._client("")
        waiting = client.list_workflows(queue_name=queue_of(batch), status="ENQUEUED", load_input=False)
        if waiting:
            client.cancel_workflows([each.workflow_id for each in waiting])
        with suppress(Exception):
            client.delete_queue(queue_of(batch))

    # Working

    async def work(self, run: Run, stop: asyncio.Event, *, batch: str = "", tools: Iterable[str] = ()) -> None:
        """Run tasks of one batch, or of all that need these tools, until `stop` is set; then finish those that run."""
        from outrider.batches.executor import Executor  # imports DBOS

        application = application_of(tools)
        await patiently(self._migrate)
        while not stop.is_set():
            await Executor(self, run, application, batch, self._lease).live(stop)

    @_explaining
    def _migrate(self) -> None:
        """Create the tables of DBOS if there are none. A worker's role may lack the right to change them."""
        if not self.query("SELECT to_regclass('dbos.workflow_status')::text")[0][0]:
            migrate(self.url)

    @_explaining
    def launch(self) -> None:
        """Start DBOS in this process."""
        from dbos import DBOS

        DBOS.launch()

    async def run_claimed(self, run: Run, batch: str, body: str, workflow: str) -> str | None:
        """Run the task of a workflow. Return its result, or None if the budget is used up: then it is cancelled."""
        task = msgspec.json.decode(body, type=described(Task))
        settings, spent, attempt = await patiently(self._claimed, batch, workflow)
        try:
            if settings.budget is not None and spent >= settings.budget:
                raise Unfinished
            result = await run(Claim(batch, task, attempt, settings))
        except Unfinished:
            await patiently(self._cancel, workflow)
            return None
        return msgspec.json.encode(result).decode()

    @_explaining
    def _cancel(self, workflow: str) -> None:
        self._client("").cancel_workflow(workflow)

    def _claimed(self, batch: str, workflow: str) -> tuple[BatchSettings, float, int]:
        """Return the settings of a batch, what it has cost, and how often a workflow was taken."""
        for settings, spent, attempts in self.query(_CLAIMED, batch, workflow):
            return msgspec.json.decode(settings, type=described(BatchSettings)), spent, max(1, attempts or 1)
        raise LogError(f"the batch {batch} has no task {workflow.partition('/')[2]!r} any more")

    def recover_dead(self) -> None:
        """Give the workflows of executors whose leases have expired to others."""
        for executor in self.expired(self._lease):
            self.recover(executor)
            self.remove(executor, self._lease)

    def release(self, pid: int) -> None:
        """Give the tasks of a worker process of this machine, which has ended, to others: its lease need not expire."""
        for executor in self.executors_of(pid):
            self.recover(executor)
            self.remove(executor)

    @_explaining
    def recover(self, executor: str) -> None:
        """Put the workflows of an executor back into their queues. It is idempotent."""
        system = self._client("")._sys_db
        pending = "SELECT workflow_uuid FROM dbos.workflow_status WHERE status = 'PENDING' AND executor_id = %s"
        for (workflow,) in self.query(pending, executor):
            system.reenqueue_for_recovery(workflow, [executor], "_dbos_internal_queue")

    # The clients

    def _client(self, application: str) -> DBOSClient:
        if application not in self._clients:
            from dbos import DBOSClient

            self._clients[application] = DBOSClient(
                system_database_url=self.url, application_name=application or None, retry_connection_errors=False
            )
        return self._clients[application]

    def close(self) -> None:
        """Close the connections."""
        super().close()
        for client in self._clients.values():
            client.destroy()
        self._clients.clear()


def application_of(tools: Iterable[str]) -> str:
    """Return the name of the DBOS application whose executors have these tools. It decides who takes which tasks.

    >>> application_of([])
    'outrider'
    """
    names = sorted(set(tools))
    return f"outrider-{sha256(' '.join(names).encode()).hexdigest()[:12]}" if names else "outrider"


def version_of(application: str) -> str:
    """Return the version of the workflow, which DBOS wants to be unique. Executors of another one do not take it."""
    return f"{application}-1"


def queue_of(batch: str) -> str:
    """Return the name of the DBOS queue of a batch."""
    return f"outrider-{batch}"


def workflow_of(batch: str, task: str) -> str:
    """Return the id of a task's workflow."""
    return f"{batch}/{task}"


def migrate(url: str) -> None:
    """Create the tables of DBOS, or bring them up to date. Raises ConfigError if DBOS is not installed."""
    try:
        from dbos import DBOS
    except ImportError:
        raise ConfigError("batches on Postgres need DBOS: pip install 'outrider[dbos]'") from None
    DBOS.migrate(url)


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
