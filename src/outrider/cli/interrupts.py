"""Ending signals: the first one cancels the work and waits for its cleanup, the second does not wait."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, TypeVar

from outrider.processes.signals import ENDING, is_free

T = TypeVar("T")


class Interrupts:
    """A context manager in which signals raise KeyboardInterrupt; in `run`, the first signal cancels the work."""

    def __init__(self) -> None:
        self.caught: signal.Signals | None = None
        """The last signal received."""
        self._previous_handlers: dict[signal.Signals, Any] = {}
        self._task: asyncio.Task[Any] | None = None
        self.before_end: Callable[[], None] = lambda: None
        """Called before a signal other than Ctrl-C cancels the work."""

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in ENDING:
                if is_free(number):
                    self._previous_handlers[number] = signal.signal(number, self._interrupted)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run async work. If a signal cancels it, raise KeyboardInterrupt after its cleanup."""

        async def cancellable() -> T:
            self._task = asyncio.current_task()
            try:
                return await work
            finally:
                self._task = None

        try:
            return asyncio.run(cancellable())
        except asyncio.CancelledError:
            if self.caught:
                raise KeyboardInterrupt from None
            raise
        finally:
            work.close()

    def stop(self) -> None:
        """Cancel the work. Call this in its event loop."""
        if self._task:
            self._task.cancel()

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        first = self.caught is None
        self.caught = signal.Signals(number)
        if not (first and self._task):
            raise KeyboardInterrupt
        if self.caught != signal.SIGINT:
            self._task.get_loop().call_soon_threadsafe(self.before_end)
        self._task.get_loop().call_soon_threadsafe(self._task.cancel)
