"""Ctrl-C and a request to end: the first lets what is going on end in good order, the second does not wait for that."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Coroutine
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
_USUAL = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}


class Interrupts:
    """While it is entered, a signal raises KeyboardInterrupt; in `run` the first one cancels the work instead."""

    def __init__(self) -> None:
        self.caught: signal.Signals | None = None
        """The last signal, if there was one."""
        self._taken: dict[signal.Signals, Any] = {}
        self._task: asyncio.Task[Any] | None = None

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number, usual in _USUAL.items():
                if signal.getsignal(number) == usual:  # what is ignored, as in the background of a shell, stays so
                    self._taken[number] = signal.signal(number, self._interrupted)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._taken.items():
            signal.signal(number, before)

    @property
    def exit_code(self) -> int:
        """As shells have it: 130 for Ctrl-C, 143 for a request to end."""
        return 128 + (self.caught or signal.SIGINT)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run async work to its end. Raises KeyboardInterrupt if it was interrupted, once it has cleaned up."""

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
        """Cancel the work, from the loop that it runs in."""
        if self._task:
            self._task.cancel()

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        first = self.caught is None
        self.caught = signal.Signals(number)
        if not (first and self._task):
            raise KeyboardInterrupt
        self._task.get_loop().call_soon_threadsafe(self._task.cancel)
