"""Appends that share one commit in Postgres, each done once though connections break.

A connection may break after a commit and before its answer. The session's row and its newest entry then say whether the
entries are there: only the holder of the fence can have changed them. So a write is repeated only if it was not done.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, TypeAlias, TypeVar

import asyncpg
import msgspec

from outrider.errors import LogError, SessionLostError
from outrider.log.append import Append
from outrider.log.backend import LOST
from outrider.log.pending_write import PendingWrite
from outrider.log.postgres.connections import BROKEN, Database
from outrider.log.postgres.schema import Connection
from outrider.log.postgres.statements import Addition, AppendOne, add, places

T = TypeVar("T")
Work: TypeAlias = Callable[[Connection], Coroutine[Any, Any, T]]
BATCH_JOBS, BATCH_BYTES = 512, 4_000_000
"""The largest number of jobs in one commit, and of bytes after which no more join."""
NOT_HELD = -1, b""
BEHIND = "the log has a write whose answer was lost; open the session again to continue from the database"


class Write(msgspec.Struct, eq=False):
    """Entries to append, and who waits for them."""

    append: Append
    waiting: Future[None] | PendingWrite

    @property
    def sessions(self) -> tuple[int, ...]:
        """The numbers of the sessions among whose writes it has a place."""
        return (self.append.number,)


class Other(msgspec.Struct, eq=False):
    """Work that has a place in the order of writes, and a transaction of its own."""

    work: Work[Any]
    waiting: Future[Any] | PendingWrite
    sessions: tuple[int, ...] = ()


def take_batch(jobs: deque[Any]) -> list[Write]:
    """Remove the writes at the front of a queue that can share a commit, and return them."""
    batch: list[Write] = []
    size = 0
    while jobs and len(batch) < BATCH_JOBS and isinstance(job := jobs[0], Write):
        size += job.append.update.size
        if batch and size > BATCH_BYTES:
            break
        batch.append(job)
        jobs.popleft()
    return batch


class Positions:
    """How far each held session was written, for all connections that write."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # reentrant: a finalizer may run anywhere
        self.ends: dict[int, tuple[int, bytes]] = {}
        """The seq of the newest row of each held session, and the newest link of its chain."""
        self.doubts: dict[int, Addition] = {}
        """What was written to a session with an unknown outcome."""

    def hold(self, number: int, last: int, head: bytes) -> None:
        """Remember the newest row of a session that is held from now on."""
        self.ends[number] = last, head
        self.doubts.pop(number, None)


class Commit:
    """Writes of one commit, which may take several attempts."""

    def __init__(
        self, writes: Sequence[Write], positions: Positions, database: Database, append_one: AppendOne | None = None
    ) -> None:
        self.writes = writes
        self._append_one = append_one
        self._positions, self._database = positions, database
        self._pending: dict[tuple[int, int], Addition] | None = None
        """What is not known to be done, by session and fence; None before the first attempt."""
        self._errors: dict[tuple[int, int], LogError] = {}
        self._is_moved = False

    def moved(self) -> Commit:
        """Return the commit for another connection. This one has no effect on the positions any more.

        An attempt may be under way here. The other connection finds out whether it was done.
        """
        other = Commit(self.writes, self._positions, self._database)
        other._pending = None if self._pending is None else dict(self._pending)
        other._errors = dict(self._errors)
        self._is_moved = True
        return other

    @property
    def is_in_doubt(self) -> bool:
        """Whether the outcome of one of the writes is unknown."""
        return any(write.append.number in self._positions.doubts for write in self.writes)

    async def write(self, connection: Connection) -> list[LogError | None]:
        """Return the error of each write, or None if it is done."""
        if self._pending is None:
            if not self._database.is_current:
                await self._database.prepare(connection)
            if self._positions.doubts:
                await self._check_doubts(connection)
            self._begin()
        elif self._pending:
            await self._find_done(connection)
        if self._pending:
            await self._add(connection, list(self._pending.values()))
        return [self._errors.get(_key(write)) for write in self.writes]

    def _begin(self) -> None:
        found: dict[tuple[int, int], Addition] = {}
        with self._positions.lock:
            for write in () if self._is_moved else self.writes:
                key = _key(write)
                if key in found:
                    found[key].absorb(write.append)
                elif key not in self._errors:
                    found[key] = Addition.of(write.append, *self._positions.ends.get(key[0], NOT_HELD))
            self._pending = found

    async def _add(self, connection: Connection, additions: Sequence[Addition]) -> None:
        doubts = self._positions.doubts
        with self._positions.lock:
            if self._is_moved:
                return
            for each in additions:
                doubts[each.number] = each
        try:
            done = await add(connection, additions, self._append_one)
            lost = [each.number for each in additions if each.number not in done]
            found = await places(connection, lost) if lost else {}
        except asyncpg.PostgresError as error:
            if not isinstance(error, BROKEN):  # the server has undone it
                with self._positions.lock:
                    for each in () if self._is_moved else additions:
                        doubts.pop(each.number, None)
            raise
        for each in additions:  # an attempt on another connection may have come before this one
            self._finish(each, is_done=each.number in done or found.get(each.number) == each.place)

    async def _find_done(self, connection: Connection) -> None:
        """Find out which additions an attempt has made whose answer was lost."""
        assert self._pending is not None
        found = await places(connection, [number for number, _ in self._pending])
        for each in list(self._pending.values()):
            place = found.get(each.number)
            if place is None or (place.fence, place.last) != (each.fence, each.before):
                self._finish(each, is_done=place == each.place)

    def _finish(self, addition: Addition, *, is_done: bool) -> None:
        assert self._pending is not None
        key = addition.number, addition.fence
        with self._positions.lock:
            if self._is_moved:
                return
            del self._pending[key]
            self._positions.doubts.pop(addition.number, None)
            if is_done:
                self._positions.ends[addition.number] = addition.last, addition.head
            else:
                self._errors[key] = SessionLostError(LOST)

    async def _check_doubts(self, connection: Connection) -> None:
        """Find out whether an earlier write was done that failed. Then the session cannot go on: it is behind."""
        doubts = self._positions.doubts
        numbers = [number for number in {write.append.number for write in self.writes} if number in doubts]
        found = await places(connection, numbers) if numbers else {}
        with self._positions.lock:
            for write in () if self._is_moved else self.writes:
                if doubt := doubts.get(write.append.number):
                    if doubt.fence == write.append.fence and found.get(write.append.number) == doubt.place:
                        self._errors[_key(write)] = LogError(BEHIND)
                    else:
                        del doubts[write.append.number]


def _key(write: Write) -> tuple[int, int]:
    return write.append.number, write.append.fence
