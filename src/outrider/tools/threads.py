"""Blocking functions beside the event loop.

The loop's own executor will not do: a tool that never returns would hold one of its few threads for good and keep the
process from ending. These are daemon threads, as many as there are calls, kept for a moment to serve the next call.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from queue import SimpleQueue

T = TypeVar("T")
_Job = Callable[[], None]

IDLE_SECONDS = 1.0


class Threads:
    """Runs functions in threads. Whoever waits may be cancelled; the function then runs on, unheard."""

    def __init__(self) -> None:
        self._idle: list[SimpleQueue[_Job]] = []

    async def run(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """The function's result, or whatever it raises, SystemExit included."""
        loop = asyncio.get_running_loop()
        context = contextvars.copy_context()
        finished: asyncio.Future[tuple[T | None, BaseException | None]] = loop.create_future()

        def report(value: T | None, error: BaseException | None) -> None:
            if not finished.done():
                finished.set_result((value, error))

        def job() -> None:
            outcome: tuple[T | None, BaseException | None]
            try:
                outcome = context.run(function, *args, **kwargs), None
            except BaseException as error:  # noqa: BLE001 - it is raised again where the result is awaited
                outcome = None, error
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody is there to hear it
                loop.call_soon_threadsafe(report, *outcome)

        self._start(job)
        value, error = await finished
        if error is not None:
            raise error
        return value  # type: ignore[return-value]

    def _start(self, job: _Job) -> None:
        try:
            inbox = self._idle.pop()
        except IndexError:
            from queue import SimpleQueue  # most sessions start no thread

            inbox = SimpleQueue()
            threading.Thread(target=self._serve, args=(inbox,), name="outrider-tool", daemon=True).start()
        inbox.put(job)

    def _serve(self, inbox: SimpleQueue[_Job]) -> None:
        from queue import Empty

        job = inbox.get()
        while True:
            job()
            del job  # what the function held is free as soon as it is done
            self._idle.append(inbox)
            try:
                job = inbox.get(timeout=IDLE_SECONDS)
            except Empty:
                try:
                    self._idle.remove(inbox)
                except ValueError:  # taken this very moment: the job is on its way
                    job = inbox.get()
                else:
                    return
