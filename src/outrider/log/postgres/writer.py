"""Writes to the log in Postgres, in order. What waits at the same moment is committed together.

A connection may break after a commit and before its answer. The session's row then says whether the entries are there:
only the holder of the fence can have changed it. So a write is repeated only if it was not done.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeAlias, TypeVar

import asyncpg
import msgspec

from outrider.errors import LogError, SessionLostError
from outrider.log.append import Append
from outrider.log.backend import LOST
from outrider.log.holder import BEAT_SECONDS
from outrider.log.pending_write import PendingWrite, resolve_all
from outrider.log.postgres.errors import BROKEN
from outrider.log.postgres.link import Database, Line, LoopThread
from outrider.log.postgres.schema import Connection
from outrider.log.postgres.statements import NOW, Addition, add

T = TypeVar("T")
Work: TypeAlias = Callable[[Connection], Coroutine[Any, Any, T]]
BATCH_JOBS, BATCH_BYTES = 512, 4_000_000
"""The largest number of jobs in one commit, and of bytes after which no more join."""
IDLE_SECONDS = 60.0
"""Connections that were not used for so long are closed, unless a session is held."""
WRITER_SETTINGS = {"enable_seqscan": "off", "plan_cache_mode": "force_generic_plan"}
"""An append must find its session by the index, however few sessions there were when it was planned."""
CLOSED = "the log was closed before Postgres could be reached"
BEHIND = "the log has a write whose answer was lost; open the session again to continue from the database"
STOP_SECONDS = 15.0
"""How long `close` waits for writes that cannot reach Postgres."""


class _Write(msgspec.Struct):
    """Entries to append, and who waits for them."""

    append: Append
    waiting: Future[None] | PendingWrite
    loop: asyncio.AbstractEventLoop | None = None

    @property
    def size(self) -> int:
        return sum(len(body) for _, body in self.append.bodies)


class _Other(msgspec.Struct):
    """Work that has a place in the order of writes, and a transaction of its own."""

    work: Work[Any]
    waiting: Future[Any] | PendingWrite
    loop: asyncio.AbstractEventLoop | None = None


class _Doubt(msgspec.Struct, frozen=True):
    """A write that failed with an unknown outcome."""

    before: int
    last: int


class PostgresWriter:
    """One connection that writes, in the event loop of its log. While sessions are held, it sends heartbeats."""

    def __init__(self, thread: LoopThread, database: Database, held: Mapping[int, int]) -> None:
        self._thread, self._database, self._held = thread, database, held
        self._line = Line(database, **WRITER_SETTINGS)
        self._jobs: deque[_Write | _Other] = deque()
        self._pump: asyncio.Task[None] | None = None
        self._heart: asyncio.TimerHandle | None = None
        self._used = 0.0
        self.last: dict[int, int] = {}
        """The seq of the newest row of each held session."""
        self._doubts: dict[int, _Doubt] = {}
        self.beat_seconds = BEAT_SECONDS

    # From any thread

    def submit(self, append: Append) -> PendingWrite:
        """Queue entries and return a handle for the running event loop."""
        write = PendingWrite()
        self._thread.call(self._put, _Write(append, write, asyncio.get_running_loop()))
        return write

    def submit_work(self, work: Work[None]) -> PendingWrite:
        """Queue work and return a handle for the running event loop."""
        write = PendingWrite()
        self._thread.call(self._put, _Other(work, write, asyncio.get_running_loop()))
        return write

    def append(self, append: Append) -> None:
        """Append entries and wait."""
        future: Future[None] = Future()
        self._thread.call(self._put, _Write(append, future))
        future.result()

    def run(self, work: Work[T]) -> T:
        """Run work after what is queued, and wait for its result."""
        future: Future[T] = Future()
        self._thread.call(self._put, _Other(work, future))
        return future.result()

    def post(self, work: Work[None]) -> None:
        """Queue work and return at once. Safe in finalizers."""
        with contextlib.suppress(LogError, RuntimeError):
            self._thread.call(self._put, _Other(work, Future()))

    def run_or_post(self, work: Work[None]) -> None:
        """Queue work and wait, except on the writer's own thread, where a finalizer may run."""
        (self.post if self._thread.is_current else self.run)(work)

    # In the event loop

    def hold(self, number: int, last: int) -> None:
        """Remember the newest row of a session that is held from now on."""
        self.last[number] = last
        self._doubts.pop(number, None)

    async def close(self) -> None:
        """Finish what is queued, and disconnect."""
        if self._heart:
            self._heart.cancel()
            self._heart = None
        while self._pump is not None:
            await asyncio.wait([self._pump], timeout=STOP_SECONDS)
            if self._pump is not None:
                self._pump.cancel()
        await self._line.close()

    def _put(self, job: _Write | _Other) -> None:
        self._jobs.append(job)
        if self._pump is None:
            self._pump = asyncio.get_running_loop().create_task(self._serve())
        if self._heart is None:
            self._heart = asyncio.get_running_loop().call_later(self.beat_seconds, self._tick)

    async def _serve(self, *, disconnect: bool = False) -> None:
        try:
            if disconnect:
                await self._line.close()
            while self._jobs:
                job = self._jobs.popleft()
                if isinstance(job, _Other):
                    await self._run(job)
                else:
                    await self._commit([job, *self._companions(job)])
                self._used = asyncio.get_running_loop().time()
        except asyncio.CancelledError:
            _fail(self._jobs, LogError(CLOSED))
            self._jobs.clear()
        finally:
            self._pump = None

    def _companions(self, first: _Write) -> list[_Write]:
        """Return the writes behind the first one that can join its commit."""
        found: list[_Write] = []
        size = first.size
        while self._jobs and isinstance(job := self._jobs[0], _Write):
            size += job.size
            if len(found) + 1 >= BATCH_JOBS or size > BATCH_BYTES:
                break
            found.append(job)
            self._jobs.popleft()
        return found

    async def _run(self, job: _Other) -> None:
        async def work(connection: Connection) -> Any:
            await self._database.prepare(connection)
            return await job.work(connection)

        try:
            value = await self._line.use(work)
        except BaseException as error:
            _resolve([job], [_closed(error)])
            if isinstance(error, asyncio.CancelledError):
                raise
        else:
            _resolve([job], [None], value)

    async def _commit(self, writes: Sequence[_Write]) -> None:
        """Commit writes together; one by one if that fails for a reason that may be that of one."""
        try:
            errors = await self._line.use(_Batch(self, writes).write)
        except asyncio.CancelledError as error:
            _fail(writes, _closed(error))
            raise
        except LogError as error:
            if len(writes) > 1 and not self._doubts.keys() & {write.append.number for write in writes}:
                for write in writes:
                    await self._commit([write])
                return
            errors = [error] * len(writes)
        _resolve(writes, errors)

    # Heartbeats

    def _tick(self) -> None:
        self._heart = None
        loop = asyncio.get_running_loop()
        if self._held:
            self._put(_Other(self._beat, Future()))
        elif self._pump is None and loop.time() - self._used > IDLE_SECONDS:
            self._pump = loop.create_task(self._serve(disconnect=True))
        else:
            self._heart = loop.call_later(self.beat_seconds, self._tick)

    async def _beat(self, connection: Connection) -> None:
        held = list(self._held.items())
        await connection.execute(
            f"UPDATE session SET beat = beat + 1, beaten = {NOW} FROM unnest($1::bigint[], $2::bigint[]) "
            "AS held (number, fence) WHERE session.number = held.number AND session.fence = held.fence",
            *zip(*held, strict=True) if held else ((), ()),
        )


class _Batch:
    """Writes of one commit, which may take several attempts."""

    def __init__(self, writer: PostgresWriter, writes: Sequence[_Write]) -> None:
        self._writer, self._writes = writer, writes
        self._pending: dict[tuple[int, int], Addition] | None = None
        """What is not known to be done, by session and fence; None before the first attempt."""
        self._errors: dict[tuple[int, int], LogError] = {}

    async def write(self, connection: Connection) -> list[LogError | None]:
        """Return the error of each write, or None if it is done."""
        if self._pending is None:
            await self._writer._database.prepare(connection)
            await self._check_doubts(connection)
            self._pending = self._additions()
        else:
            await self._find_done(connection)
        if self._pending:
            await self._add(connection, list(self._pending.values()))
        return [self._errors.get(_key(write)) for write in self._writes]

    def _additions(self) -> dict[tuple[int, int], Addition]:
        found: dict[tuple[int, int], Addition] = {}
        for write in self._writes:
            key = _key(write)
            if key in found:
                found[key].absorb(write.append)
            elif key not in self._errors:
                found[key] = Addition.of(write.append, self._writer.last.get(key[0], -1))
        return found

    async def _add(self, connection: Connection, additions: Sequence[Addition]) -> None:
        doubts = self._writer._doubts
        doubts |= {each.number: _Doubt(each.before, each.last) for each in additions}
        try:
            done = await add(connection, additions)
        except asyncpg.PostgresError as error:
            if not isinstance(error, BROKEN):  # the server has undone it
                for each in additions:
                    doubts.pop(each.number, None)
            raise
        for each in additions:
            self._finish(each, is_done=each.number in done)

    async def _find_done(self, connection: Connection) -> None:
        """Find out which additions an attempt has made whose answer was lost."""
        assert self._pending is not None
        found = await _positions(connection, [number for number, _ in self._pending])
        for each in list(self._pending.values()):
            fence, last = found.get(each.number, (0, 0))
            if fence != each.fence or last != each.before:
                self._finish(each, is_done=fence == each.fence and last == each.last)

    def _finish(self, addition: Addition, *, is_done: bool) -> None:
        assert self._pending is not None
        key = addition.number, addition.fence
        del self._pending[key]
        self._writer._doubts.pop(addition.number, None)
        if is_done:
            self._writer.last[addition.number] = addition.last
        else:
            self._errors[key] = SessionLostError(LOST)

    async def _check_doubts(self, connection: Connection) -> None:
        """Find out whether an earlier write was done that failed. Then the session cannot go on: it is behind."""
        doubts = self._writer._doubts
        numbers = [number for number in {write.append.number for write in self._writes} if number in doubts]
        found = await _positions(connection, numbers) if numbers else {}
        for write in self._writes:
            if doubt := doubts.get(write.append.number):
                fence, last = found.get(write.append.number, (0, 0))
                if fence == write.append.fence and last == doubt.last:
                    self._errors[_key(write)] = LogError(BEHIND)
                else:
                    del doubts[write.append.number]


async def _positions(connection: Connection, numbers: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Return the fence and the newest seq of sessions."""
    rows = await connection.fetch("SELECT number, fence, last FROM session WHERE number = ANY($1)", numbers)
    return {number: (fence, last) for number, fence, last in rows}


def _key(write: _Write) -> tuple[int, int]:
    return write.append.number, write.append.fence


def _closed(error: BaseException) -> BaseException:
    return LogError(CLOSED) if isinstance(error, asyncio.CancelledError) else error


def _fail(jobs: Iterable[_Write | _Other], error: BaseException) -> None:
    for job in jobs:
        _resolve([job], [error])


def _resolve(writes: Sequence[_Write | _Other], errors: Sequence[BaseException | None], value: Any = None) -> None:
    """Pass outcomes to the callers, with one call for each event loop."""
    loops: dict[asyncio.AbstractEventLoop, list[tuple[PendingWrite, BaseException | None]]] = {}
    for write, error in zip(writes, errors, strict=True):
        if isinstance(write.waiting, PendingWrite):
            assert write.loop
            loops.setdefault(write.loop, []).append((write.waiting, error))
        elif error is None:
            write.waiting.set_result(value)
        else:
            write.waiting.set_exception(error)
    for loop, done in loops.items():
        with contextlib.suppress(RuntimeError):  # the loop was closed, so no task waits
            loop.call_soon_threadsafe(resolve_all, done)
