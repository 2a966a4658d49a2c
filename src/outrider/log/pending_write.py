"""A handle on a write that the log has not finished yet."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol


class Appended(Protocol):
    """Entries that are appended to a session."""

    last: int
    """The seq of the last one, once they are."""


class PendingWrite:
    """A write that is done once it is on disk. Cancelling a waiting task does not cancel the write."""

    __slots__ = ("_then", "_waiters", "appended", "done", "error", "lead", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.loop = loop
        """The event loop of those that wait, if another thread finishes it."""
        self.done = False
        self.error: BaseException | None = None
        """The reason for the failure, once it is done."""
        self.appended: Appended | None = None
        """What it appends to a session, if anything."""
        self.lead: Callable[[], Coroutine[Any, Any, None]] | None = None
        """Writes what waits in the task that calls it, so that no other task has to wake up. A cancel is safe."""
        self._then: list[Callable[[], None]] = []
        self._waiters: list[asyncio.Future[None]] = []

    @classmethod
    def failed(cls, error: BaseException) -> PendingWrite:
        """Return a write that failed before it was queued."""
        write = cls()
        write.done, write.error = True, error
        return write

    def then(self, callback: Callable[[], None]) -> None:
        """Call this when the write is done; at once if it already is."""
        if self.done:
            callback()
        else:
            self._then.append(callback)

    async def finished(self) -> None:
        """Wait until the write is on disk, or raise its error. A cancel that arrives meanwhile is deferred.

        So the caller can first update its memory to match the disk. Its next await is then cancelled.
        """
        cancelled: asyncio.Task[Any] | None = None
        while not self.done:
            lead, self.lead = self.lead, None
            try:
                await (lead() if lead else self._woken())
            except asyncio.CancelledError:
                if cancelled := asyncio.current_task():
                    cancelled.uncancel()
        if cancelled:
            cancelled.cancel()
        if self.error:
            if cancelled:
                await asyncio.sleep(0)  # there is nothing to update, and the cancel comes before the error
            raise self.error

    def _woken(self) -> asyncio.Future[None]:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        return waiter

    def _wake(self, error: BaseException | None) -> None:
        self.done, self.error = True, error
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _run_callbacks(self) -> None:
        callbacks, self._then = self._then, []  # they refer to this object: break the reference cycle
        for callback in callbacks:
            callback()


def resolve_all(writes: Sequence[tuple[PendingWrite, BaseException | None]]) -> None:
    """Mark writes as done, on their event loop. Every waiter wakes even if a callback raises."""
    for write, error in writes:
        write._wake(error)
    failed: BaseException | None = None
    for write, _ in writes:
        try:
            write._run_callbacks()
        except BaseException as error:  # noqa: BLE001 - raised below, after all callbacks
            failed = failed or error
    if failed:
        raise failed


def resolve(outcomes: Iterable[tuple[Future[Any] | PendingWrite, Any, BaseException | None]]) -> None:
    """Pass values and errors to the callers from another thread, with one call for each event loop."""
    loops: dict[asyncio.AbstractEventLoop, list[tuple[PendingWrite, BaseException | None]]] = {}
    for waiting, value, error in outcomes:
        if isinstance(waiting, PendingWrite):
            assert waiting.loop
            loops.setdefault(waiting.loop, []).append((waiting, error))
        elif error is None:
            waiting.set_result(value)
        else:
            waiting.set_exception(error)
    for loop, writes in loops.items():
        with contextlib.suppress(RuntimeError):  # the loop was closed, so no task waits
            loop.call_soon_threadsafe(resolve_all, writes)


async def deliver_cancel() -> None:
    """Raise CancelledError here if a cancel was deferred during a write."""
    task = asyncio.current_task()
    if task and task.cancelling():
        await asyncio.sleep(0)
