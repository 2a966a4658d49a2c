"""Tasks as DBOS workflows: run one that was claimed, and give those of a dead executor to others.

DBOS hands out tasks and stores results. It does not notice that an executor has died: leases do, and then DBOS's own
recovery gives the workflows of the dead executor to others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import wraps
from hashlib import sha256
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import msgspec

from outrider.batches.postgres_ledger import PostgresLedger, denied
from outrider.batches.queue import BatchSettings, Claim, Run, Unfinished, retried
from outrider.batches.task import Task
from outrider.errors import ConfigError, LogError, OutriderError, install_extra
from outrider.struct_types import described

if TYPE_CHECKING:
    from dbos import DBOSClient

WORKFLOW = "outrider_task"
LEASE_SECONDS = 15.0
"""How long an executor is taken for alive that does not renew its lease."""
_INSUFFICIENT_PRIVILEGE = "42501"
"""A code of SQL."""
_CLAIMED = """
    SELECT settings, spent, recovery_attempts FROM outrider_batch.batch, dbos.workflow_status
    WHERE id = %s AND workflow_uuid = %s
"""
_PARK = """
    WITH left_alone AS (
        UPDATE dbos.workflow_status
        SET status = 'CANCELLED', owner_xid = NULL, queue_name = NULL, started_at_epoch_ms = NULL,
            recovery_attempts = recovery_attempts - 1
        WHERE workflow_uuid = %s AND status = 'PENDING' AND recovery_attempts = %s RETURNING workflow_uuid
    )
    INSERT INTO outrider_batch.parked SELECT workflow_uuid, %s, %s, %s, %s FROM left_alone
    ON CONFLICT (workflow) DO UPDATE SET questions = excluded.questions RETURNING 1
"""
"""To DBOS it is a cancelled workflow, which nobody runs. An attempt that was parked does not count."""
_WAKE = """
    WITH ready AS (
        SELECT workflow FROM outrider_batch.parked JOIN outrider_batch.batch ON id = batch
        WHERE is_open AND (deadline <= %s OR EXISTS (
            SELECT FROM unnest(questions) AS awaited (id) WHERE NOT EXISTS (
                SELECT FROM outrider.question WHERE question.id = awaited.id AND fence = 0 AND answer IS NULL
            )
        ))
        FOR UPDATE OF parked SKIP LOCKED
    ), woken AS (
        DELETE FROM outrider_batch.parked WHERE workflow IN (SELECT workflow FROM ready) RETURNING workflow, batch
    )
    UPDATE dbos.workflow_status SET status = 'ENQUEUED', queue_name = %s || batch, completed_at = NULL
    FROM woken WHERE workflow_uuid = workflow AND status = 'CANCELLED' RETURNING 1
"""
_WITHOUT_LEASE = """
    SELECT DISTINCT executor_id FROM dbos.workflow_status
    WHERE status = 'PENDING' AND name = %s AND executor_id NOT IN (SELECT id FROM outrider_batch.executor)
"""
P = ParamSpec("P")
T = TypeVar("T")


def explaining(function: Callable[P, T]) -> Callable[P, T]:
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


class DbosTasks(PostgresLedger):
    """The tasks of all batches in a database. The id of a workflow is the batch and the task."""

    def __init__(self, url: str, lease: float = LEASE_SECONDS) -> None:
        super().__init__(url)
        self.lease = lease
        """Seconds after which an executor is taken for dead that does not renew its lease."""
        self._clients: dict[str, DBOSClient] = {}

    @explaining
    def launch(self) -> None:
        """Start DBOS in this process."""
        from dbos import DBOS

        DBOS.launch()

    async def run_claimed(self, run: Run, batch: str, body: str, workflow: str) -> str | None:
        """Run the task of a workflow. Return its result, or None if it is parked, or the budget is used up."""
        task = msgspec.json.decode(body, type=described(Task))
        settings, spent, attempt = await retried(self._claimed, batch, workflow)
        try:
            if settings.budget is not None and spent >= settings.budget:
                raise Unfinished
            result = await run(Claim(batch, task, attempt, settings))
        except Unfinished:
            await retried(self._cancel, workflow)
            return None
        body = msgspec.json.encode(result).decode()
        if result.status != "waiting":
            return body
        await retried(self.query, _PARK, workflow, attempt, batch, *result.awaited, body)
        return None

    def wake(self) -> int:
        """Put parked workflows back into their queues that can go on. Return how many."""
        if not self.query("SELECT FROM outrider_batch.parked LIMIT 1"):
            return 0
        return len(self.query(_WAKE, time.time(), queue_of("")))

    @explaining
    def _cancel(self, workflow: str) -> None:
        self._client("").cancel_workflow(workflow)

    def _claimed(self, batch: str, workflow: str) -> tuple[BatchSettings, float, int]:
        """Return the settings of a batch, what it has cost, and how often a workflow was taken."""
        for settings, spent, attempts in self.query(_CLAIMED, batch, workflow):
            return msgspec.json.decode(settings, type=described(BatchSettings)), spent, max(1, attempts or 1)
        raise LogError(f"the batch {batch} has no task {workflow.partition('/')[2]!r} any more")

    def recover_dead(self) -> None:
        """Give the workflows of executors whose leases have expired to others.

        One that is taken for dead may take another workflow before it knows, and be killed: then it has no lease.
        """
        without_lease = (executor for (executor,) in self.query(_WITHOUT_LEASE, WORKFLOW))
        for executor in (*self.expired(self.lease), *without_lease):
            self.recover(executor)
            self.remove(executor, self.lease)

    def release(self, pid: int) -> None:
        """Give the tasks of a worker process of this machine, which has ended, to others: its lease need not expire."""
        for executor in self.executors_of(pid):
            self.recover(executor)
            self.remove(executor)

    @explaining
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
        raise ConfigError(f"batches on Postgres need DBOS: {install_extra('dbos')}") from None
    DBOS.migrate(url)
