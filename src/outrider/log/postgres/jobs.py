"""What waits to be written to a log in Postgres, and the answers to the callers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeAlias, TypeVar

import msgspec

from outrider.log.append import Append
from outrider.log.pending_write import PendingWrite
from outrider.log.postgres.schema import Connection

T = TypeVar("T")
Work: TypeAlias = Callable[[Connection], Coroutine[Any, Any, T]]
BATCH_JOBS, BATCH_BYTES = 512, 4_000_000
"""The largest number of jobs in one commit, and of bytes after which no more join."""


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
