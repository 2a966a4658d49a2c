"""The writers of a log in Postgres, and which of them writes for a session.

Appends of an event loop that appends often go to a `LoopWriter` in that loop; all else goes to the `ThreadWriter`. The
unfinished writes of a session are in one place, so they stay in order. A write that belongs in another place takes
those before it to the thread.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

import msgspec

from outrider.errors import LogError
from outrider.log.append import Append
from outrider.log.holder import BEAT_SECONDS
from outrider.log.pending_write import PendingWrite, resolve
from outrider.log.postgres.commit import Commit, Other, Positions, Work, Write, take_batch
from outrider.log.postgres.connections import WRITER_SETTINGS, Database, LoopThread, SteadyConnection
from outrider.log.postgres.loop_writer import LoopWriter
from outrider.log.postgres.schema import Connection
from outrider.log.postgres.statements import beat

IDLE_SECONDS = 60.0
"""Connections that were not used for so long are closed, unless a session is held."""
CLOSED = "the log was closed before Postgres could be reached"
STOP_SECONDS = 15.0
"""How long `close` waits for writes that cannot reach Postgres."""
T = TypeVar("T")


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


class _Claim(msgspec.Struct, eq=False):
    """Where the unfinished jobs of a session are, and how many."""

    home: LoopWriter | None
    """None is the thread."""
    jobs: int = 0


class PostgresWriter:
    """Takes jobs from any thread."""

    def __init__(self, thread: LoopThread, database: Database, held: Mapping[int, int]) -> None:
        self._thread, self._database = thread, database
        self.positions = Positions()
        self._own = ThreadWriter(database, self.positions, held, self._finish, self._tend)
        self._loops: dict[asyncio.AbstractEventLoop, LoopWriter] = {}
        self._claims: dict[int, _Claim] = {}
        """Guarded by the lock of the positions."""

    def submit(self, append: Append) -> PendingWrite:
        """Queue entries and return a handle for the running event loop."""
        self._thread.check_process()  # first: a forked process has no running loop
        loop = asyncio.get_running_loop()
        self._place(Write(append, write := PendingWrite(loop)), self._home(loop))
        return write

    def submit_work(self, work: Work[None]) -> PendingWrite:
        """Queue work and return a handle for the running event loop."""
        self._thread.check_process()
        self._place(Other(work, write := PendingWrite(asyncio.get_running_loop())))
        return write

    def append(self, append: Append) -> None:
        """Append entries and wait."""
        self._thread.check_process()
        future: Future[None] = Future()
        self._place(Write(append, future))
        future.result()

    def run(self, work: Work[T], *sessions: int) -> T:
        """Run work after what is queued for these sessions, and wait for its result."""
        self._thread.check_process()
        future: Future[T] = Future()
        self._place(Other(work, future, sessions))
        return future.result()

    def post(self, work: Work[None], *sessions: int) -> None:
        """Queue work and return at once. Safe in finalizers."""
        with contextlib.suppress(LogError, RuntimeError):
            self._thread.call(self._place, Other(work, Future(), sessions))

    def run_or_post(self, work: Work[None], *sessions: int) -> None:
        """Queue work and wait, except on the writer's own thread, where a finalizer may run."""
        (self.run if self._thread.may_wait else self.post)(work, *sessions)

    def disconnect_loops(self) -> None:
        """Take all writes to the thread, and disconnect in the event loops of callers."""
        if not self._thread.is_of_this_process:
            return  # the connections are those of the parent process
        with self.positions.lock:
            homes = list(self._loops.values())
            self._loops.clear()
        for home in homes:
            self._recall(home)
            home.close()

    async def close(self) -> None:
        """Finish what is queued, and disconnect. To be called in the thread."""
        await self._own.close()

    # Places

    def _home(self, loop: asyncio.AbstractEventLoop) -> LoopWriter | None:
        home = self._loops.get(loop)
        if home is None:
            self._tend(False)
            home = LoopWriter(loop, self._database, self.positions, self._finish, self._recall)
            with self.positions.lock:
                self._loops[loop] = home
        return home if home.is_ready else None

    def _place(self, job: Write | Other, home: LoopWriter | None = None) -> None:
        """Queue a job behind those of its sessions. The home is where a write goes whose session has no other."""
        with self.positions.lock:
            for session in job.sessions:
                claim = self._claims.get(session)
                if claim is None:
                    claim = self._claims[session] = _Claim(home)
                elif claim.home is not home and claim.home is not None:
                    self._recall(claim.home)
                claim.jobs += 1
                home = claim.home
            try:
                if home is not None and isinstance(job, Write):
                    home.put(job)
                else:
                    self._put(job)
            except BaseException:
                self._finish([job])
                raise

    def _put(self, job: Write | Other | Commit) -> None:
        if self._thread.may_wait:
            self._thread.call(self._own.put, job)
        else:
            self._own.put(job)

    def _finish(self, jobs: Sequence[Write | Other]) -> None:
        """Forget jobs that are done."""
        with self.positions.lock:
            for job in jobs:
                for session in job.sessions:
                    claim = self._claims[session]
                    claim.jobs -= 1
                    if not claim.jobs:
                        del self._claims[session]

    def _recall(self, home: LoopWriter) -> None:
        """Take the unfinished writes of a loop to the thread."""
        with self.positions.lock:
            for job in home.take():
                writes = job.writes if isinstance(job, Commit) else [job]
                for write in writes:
                    self._claims[write.append.number].home = None
                try:
                    self._put(job)
                except (LogError, RuntimeError) as error:  # there can be no thread any more
                    self._finish(writes)
                    resolve((write.waiting, None, error) for write in writes)

    def _tend(self, is_idle: bool) -> None:
        """Take over from loops that are stuck, and disconnect there; in all loops if the log is idle."""
        with self.positions.lock:
            homes = [each for each in self._loops.values() if each.is_stuck or each.loop.is_closed() or is_idle]
            for home in homes:
                del self._loops[home.loop]
                self._recall(home)
        for home in homes:
            home.close()
