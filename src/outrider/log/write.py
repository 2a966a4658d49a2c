"""Work on its way to the disk, as the event loop sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any


class Write:
    """Done when it is on disk. To cancel whoever waits for it does not cancel it."""

    __slots__ = ("_then", "_waiters", "done", "error")

    def __init__(self) -> None:
        self.done = False
        self.error: BaseException | None = None
        """Why it failed, once it is done."""
        self._then: list[Callable[[], None]] = []
        self._waiters: list[asyncio.Future[None]] = []

    @classmethod
    def failed(cls, error: BaseException) -> Write:
        """One that cannot even begin."""
        write = cls()
        write.done, write.error = True, error
        return write

    def then(self, callback: Callable[[], None]) -> None:
        """Have this called when it is done; at once if it is."""
        if self.done:
            callback()
        else:
            self._then.append(callback)

    async def finished(self) -> None:
        """Wait until it is on disk, or raise what went wrong. A cancel that comes meanwhile takes effect afterwards.

        So whoever waited can first bring its memory in line with the disk; the next thing that it awaits is cancelled.
        """
        cancelled: asyncio.Task[Any] | None = None
        while not self.done:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if cancelled := asyncio.current_task():
                    cancelled.uncancel()
        if cancelled:
            cancelled.cancel()
        if self.error:
            if cancelled:
                await asyncio.sleep(0)  # there is nothing to bring in line, and the cancel goes first
            raise self.error

    def _wake(self, error: BaseException | None) -> None:
        self.done, self.error = True, error
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _call(self) -> None:
        callbacks, self._then = self._then, []  # they know this object, which need not wait for the collector
        for callback in callbacks:
            callback()


def resolve_all(writes: Sequence[tuple[Write, BaseException | None]]) -> None:
    """They are done; called on their event loop. Whoever waits is woken, whatever a callback does."""
    for write, error in writes:
        write._wake(error)
    failed: BaseException | None = None
    for write, _ in writes:
        try:
            write._call()
        except BaseException as error:  # noqa: BLE001 - raised below, when all have heard of it
            failed = failed or error
    if failed:
        raise failed


async def deliver_cancel() -> None:
    """Be cancelled here and now, if a cancel that came during a write still has to take effect."""
    task = asyncio.current_task()
    if task and task.cancelling():
        await asyncio.sleep(0)
