"""Run blocking functions in threads, beside the event loop.

The loop's default executor does not fit: a tool that never returns would occupy one of its few threads for good and
keep the process from exiting. These are daemon threads, one for each running call; an idle thread waits briefly for the
next call.
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
    """Runs functions in threads. If the caller is cancelled, the function runs on and its result is dropped."""

    def __init__(self) -> None:
        self._idle: list[SimpleQueue[_Job]] = []

    async def run(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Return the function's result, or raise its exception, SystemExit included."""
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
            except BaseException as error:  # noqa: BLE001 - raised again where the result is awaited
                outcome = None, error
            with contextlib.suppress(RuntimeError):  # the loop is closed, so nothing awaits the result
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
            del job  # release what the function holds as soon as it returns
            self._idle.append(inbox)
            try:
                job = inbox.get(timeout=IDLE_SECONDS)
            except Empty:
                try:
                    self._idle.remove(inbox)
                except ValueError:  # _start has just taken the inbox: its job follows
                    job = inbox.get()
                else:
                    return
