"""What a session is doing: one thing at a time, in a task of its own, which can be cancelled from anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from outrider.errors import SessionBusyError, SessionCancelledError

T = TypeVar("T")


class ExclusiveTask:
    """Does one thing at a time. `cancel` ends that, and not whoever waits for it."""

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = False

    @property
    def is_busy(self) -> bool:
        """Whether a task is running."""
        return self._task is not None

    async def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Do this, and wait for it. Raises SessionCancelledError if it is cancelled by `cancel`."""
        if self._task is not None:
            work.close()
            raise SessionBusyError("this session is still at work; wait for it, or cancel() it first")
        self._cancelling = False
        self._task = task = asyncio.ensure_future(work)
        try:
            return await task
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if self._cancelling and not (caller and caller.cancelling()):
                raise SessionCancelledError("the session was cancelled; it can go on: ask it again") from None
            raise
        finally:
            self._task = None
            work.close()  # in case it was cancelled before it began

    def cancel(self) -> None:
        """Stop what is being done; nothing if nothing is. Safe from any thread."""
        if task := self._task:
            self._cancelling = True
            loop = task.get_loop()
            if loop is _running_loop():
                task.cancel()
            else:
                loop.call_soon_threadsafe(task.cancel)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
