"""Writes to the log in Postgres in the log's thread, in order. What waits at the same moment is committed together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from outrider.errors import LogError
from outrider.log.holder import BEAT_SECONDS
from outrider.log.pending_write import resolve
from outrider.log.postgres.commit import Commit, Positions
from outrider.log.postgres.connections import WRITER_SETTINGS, Database, SteadyConnection
from outrider.log.postgres.jobs import Other, Write, take_batch
from outrider.log.postgres.schema import Connection
from outrider.log.postgres.statements import beat

IDLE_SECONDS = 60.0
"""Connections that were not used for so long are closed, unless a session is held."""
CLOSED = "the log was closed before Postgres could be reached"
STOP_SECONDS = 15.0
"""How long `close` waits for writes that cannot reach Postgres."""


class ThreadWriter:
    """One connection that writes, with heartbeats of held sessions. Its methods are called in the log's loop."""

    def __init__(
        self,
        database: Database,
        positions: Positions,
        held: Mapping[int, int],
        finish: Callable[[Sequence[Write | Other]], None],
        tend: Callable[[bool], None],
    ) -> None:
        self._database, self._positions, self._held = database, positions, held
        self._finish = finish
        self._tend = tend
        """Looks after the connections in other event loops, at every heartbeat. It is told whether the log is idle."""
        self._line = SteadyConnection(database, **WRITER_SETTINGS)
        self._jobs: deque[Write | Other | Commit] = deque()
        self._pump: asyncio.Task[None] | None = None
        self._heart: asyncio.TimerHandle | None = None
        self._used = 0.0
        self.beat_seconds = BEAT_SECONDS

    def put(self, job: Write | Other | Commit) -> None:
        """Queue a job. A commit was begun on another connection."""
        self._jobs.append(job)
        if self._pump is None:
            self._pump = asyncio.get_running_loop().create_task(self._serve())
        if self._heart is None:
            self._heart = asyncio.get_running_loop().call_later(self.beat_seconds, self._tick)

    async def close(self) -> None:
        """Finish what is queued, and disconnect."""
        if self._heart:
            self._heart.cancel()
            self._heart = None
        try:
            while self._pump is not None:
                await asyncio.wait([self._pump], timeout=STOP_SECONDS)
                if self._pump is not None:
                    self._pump.cancel()
        finally:
            await self._line.close()

    async def _serve(self, *, disconnect: bool = False) -> None:
        try:
            if disconnect:
                await self._line.close()
            while self._jobs:
                if writes := take_batch(self._jobs):
                    await self._commit(Commit(writes, self._positions, self._database))
                elif isinstance(job := self._jobs.popleft(), Other):
                    await self._run(job)
                else:
                    assert isinstance(job, Commit)
                    await self._commit(job)
                self._used = asyncio.get_running_loop().time()
        except asyncio.CancelledError:
            for job in self._jobs:
                self._fail(job.writes if isinstance(job, Commit) else [job])
            self._jobs.clear()
        finally:
            self._pump = None

    async def _run(self, job: Other) -> None:
        async def work(connection: Connection) -> Any:
            await self._database.prepare(connection)
            return await job.work(connection)

        try:
            value = await self._line.use(work)
        except asyncio.CancelledError:
            self._fail([job])
            raise
        except BaseException as error:  # noqa: BLE001 - the caller is told
            self._resolve([job], [error])
        else:
            self._resolve([job], [None], value)

    async def _commit(self, commit: Commit) -> None:
        """Commit writes together; one by one if that fails for a reason that may be that of one."""
        errors: Sequence[LogError | None]
        try:
            errors = await self._line.use(commit.write)
        except asyncio.CancelledError:
            self._fail(commit.writes)
            raise
        except LogError as error:
            if len(commit.writes) > 1 and not commit.is_in_doubt:
                self._jobs.extendleft(Commit([each], self._positions, self._database) for each in commit.writes[::-1])
                return
            errors = [error] * len(commit.writes)
        self._resolve(commit.writes, errors)

    def _fail(self, jobs: Sequence[Write | Other]) -> None:
        self._resolve(jobs, [LogError(CLOSED)] * len(jobs))

    def _resolve(
        self, jobs: Sequence[Write | Other], errors: Sequence[BaseException | None], value: Any = None
    ) -> None:
        self._finish(jobs)
        resolve((job.waiting, value, error) for job, error in zip(jobs, errors, strict=True))

    # Heartbeats

    def _tick(self) -> None:
        self._heart = None
        loop = asyncio.get_running_loop()
        is_idle = not self._held and self._pump is None and loop.time() - self._used > IDLE_SECONDS
        self._tend(is_idle)
        if self._held:
            self.put(Other(partial(beat, held=self._held), Future()))
        elif is_idle:
            self._pump = loop.create_task(self._serve(disconnect=True))
        else:
            self._heart = loop.call_later(self.beat_seconds, self._tick)
