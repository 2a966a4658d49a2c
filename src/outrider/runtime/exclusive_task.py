"""One asyncio task at a time, which can be cancelled from any thread."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from outrider.errors import SessionBusyError, SessionCancelledError

T = TypeVar("T")


class ExclusiveTask:
    """Runs one task at a time. `cancel` cancels the task, not its waiter."""

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = False
        self._caller: asyncio.Task[Any] | None = None
        """The task that waits for it."""
        self._cancels = 0
        """How often that one had been cancelled before."""

    @property
    def is_busy(self) -> bool:
        """Whether a task is running."""
        return self._task is not None

    async def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end. Raises SessionCancelledError if `cancel` ended it."""
        if self._task:
            try:
                await self.free()
            except BaseException:
                work.close()
                raise
        self._cancelling = False
        self._caller = asyncio.current_task()
        self._cancels = self._caller.cancelling() if self._caller else 0
        self._task = task = asyncio.ensure_future(work)
        try:
            return await task
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if self._cancelling and not (caller and caller.cancelling()):
                raise SessionCancelledError("the session was cancelled; it can go on: ask it again") from None
            raise
        finally:
            self._task = self._caller = None
            work.close()  # in case it was cancelled before it started

    async def free(self) -> None:
        """Wait for a task that has ended or is being cancelled. Raises SessionBusyError if one is at work.

        Leaving a stream early does not make the session busy.
        """
        while (before := self._task) is not None:
            is_own = before is asyncio.current_task()  # a hook of the run itself would wait for itself
            is_ending = before.done() or before.cancelling() or self._is_left
            if is_own or not is_ending or before.get_loop() is not running_loop():
                raise busy()
            await (asyncio.sleep(0) if before.done() else asyncio.wait([before]))

    @property
    def _is_left(self) -> bool:
        """Whether its caller was cancelled. The task itself does not look cancelled while it stores something."""
        return self._caller is not None and self._caller.cancelling() > self._cancels

    def cancel(self) -> None:
        """Cancel the task, if there is one. Safe from any thread."""
        if task := self._task:
            self._cancelling = True
            loop = task.get_loop()
            if loop is running_loop():
                task.cancel()
            else:
                with suppress(RuntimeError):  # the loop was closed, and the task will never run again
                    loop.call_soon_threadsafe(task.cancel)

    async def stop(self) -> None:
        """Cancel the task, if there is one, and wait for its end."""
        self.cancel()
        while (task := self._task) is not None:
            is_here = task.get_loop() is running_loop() and not task.done()
            await (asyncio.wait([task]) if is_here else asyncio.sleep(0.01))


def busy() -> SessionBusyError:
    """Return the error of a session that does one thing at a time."""
    return SessionBusyError("this session is still at work; wait for it, or cancel() it first")


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop of this thread, or None if none is running."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
