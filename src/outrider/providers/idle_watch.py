"""Time limits for many waits with one timer of the event loop: nearly all waits end long before their time."""

from __future__ import annotations

import asyncio
from types import TracebackType


class IdleWatch:
    """Ends the waits of one event loop that take too long. It has a timer for the wait that would end first."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._waits: set[Wait] = set()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, wait: Wait) -> None:
        """Watch a wait."""
        self._waits.add(wait)
        if self._timer is None or wait.deadline < self._timer.when():
            self._set_timer(wait.deadline)

    def end(self, wait: Wait) -> None:
        """Watch a wait no longer. The timer stays: it costs more to cancel it than to let it find nothing."""
        self._waits.discard(wait)

    def _set_timer(self, when: float) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = self.loop.call_at(when, self._check)

    def _check(self) -> None:
        assert self._timer
        now, self._timer = self._timer.when(), None
        for wait in [wait for wait in self._waits if wait.deadline <= now]:
            self._waits.discard(wait)
            wait.expire()
        if self._waits:
            self._set_timer(min(wait.deadline for wait in self._waits))


class Wait:
    """A limit for each wait inside `with`, in seconds. Raises TimeoutError, like `asyncio.timeout`."""

    __slots__ = ("_cancelling", "_expired", "_seconds", "_task", "_watch", "deadline")

    def __init__(self, watch: IdleWatch, seconds: float) -> None:
        self.deadline = 0.0
        """When the wait ends, on the clock of the event loop."""
        self._watch = watch
        self._seconds = seconds
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._expired = False

    def __enter__(self) -> None:
        self._task = task = asyncio.current_task()
        self._cancelling = task.cancelling() if task else 0
        self.deadline = self._watch.loop.time() + self._seconds
        self._watch.begin(self)

    def expire(self) -> None:
        """End the wait."""
        if self._task:
            self._expired = True
            self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._watch.end(self)
        task, self._task = self._task, None
        if self._expired and task:
            self._expired = False
            # A cancel that came from elsewhere as well goes on.
            if task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
                raise TimeoutError from error
