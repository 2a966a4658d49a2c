"""One life of a DBOS executor in this process: from its lease to its end."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from contextlib import suppress

from outrider.batches.dbos_tasks import WORKFLOW, DbosTasks, queue_of, version_of
from outrider.batches.queue import MAX_ATTEMPTS, WAKE_SECONDS, Run
from outrider.batches.retries import retried
from outrider.errors import ConfigError, LogError

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
            await _first(stop, self._is_lost)
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


async def _first(*events: asyncio.Event) -> None:
    """Wait until one of the events is set."""
    waiting = [asyncio.ensure_future(each.wait()) for each in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()
