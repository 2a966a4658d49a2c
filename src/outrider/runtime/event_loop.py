"""Async work from where there is no await: scripts, and notebooks whose event loop runs already."""

from __future__ import annotations

import asyncio
import contextvars
import signal
import socket
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

T = TypeVar("T")

GRACE = 1.0
"""Seconds that tasks have to end when the work that began them is done."""


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run async work to its end, also where an event loop runs already, as in a notebook."""
    driver = _Driver(work)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return driver.run()
    return driver.run_in_thread()


@contextmanager
def _woken_by_signals(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Have signals wake the loop: one that comes as it is about to wait would be heard only when the wait is over."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        loop.add_reader(ours, ours.recv, 4096)
        before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            if not loop.is_closed():
                loop.remove_reader(ours)


class _Driver(Generic[T]):
    """One piece of work on an event loop of its own."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._task: asyncio.Task[T] | None = None

    def run(self) -> T:
        """Here. Ctrl-C cancels the work and is raised when it has ended."""
        loop = self._runner.get_loop()
        self._task = loop.create_task(self._work)
        with _woken_by_signals(loop):
            return self._run(loop, self._task)

    def _run(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[T]) -> T:
        try:
            while True:
                outcome = self._outcome()
                try:
                    return self._runner.run(outcome)
                except RuntimeError as error:
                    outcome.close()
                    # A tool that stopped the loop under us has not stopped the work.
                    if task.done():
                        raise
                    if loop.is_closed():
                        raise RuntimeError("a tool closed the event loop that it ran on") from error
        finally:
            _close(loop)

    async def _outcome(self) -> T:
        assert self._task is not None
        return await self._task

    def run_in_thread(self) -> T:
        """In a thread of its own, whose loop the running one cannot disturb. The caller waits, as it asked to."""
        outcome: list[T] = []
        failure: list[BaseException] = []
        ended = threading.Event()  # not the thread itself: a join that was interrupted cannot be relied on again

        def target() -> None:
            try:
                outcome.append(self.run())
            except BaseException as error:  # noqa: BLE001 - it is raised again in the caller's thread
                failure.append(error)
            finally:
                ended.set()

        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(target,), name="outrider-run", daemon=True).start()
        try:
            ended.wait()
        except BaseException:  # Ctrl-C in the waiting thread: the work must stop as well
            self._cancel()
            ended.wait()
            raise
        if failure:
            raise failure[0]
        return outcome[0]

    def _cancel(self) -> None:
        if self._task is not None:
            self._runner.get_loop().call_soon_threadsafe(self._task.cancel)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """Close a loop without waiting for tasks that do not end, as asyncio.run would."""
    leftovers = asyncio.all_tasks(loop)
    if not loop.is_closed():
        for task in leftovers:
            task.cancel()
        if leftovers:
            loop.run_until_complete(asyncio.wait(leftovers, timeout=GRACE))
        loop.run_until_complete(asyncio.wait_for(loop.shutdown_asyncgens(), GRACE))
        loop.close()
    for task in leftovers:
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # left behind on purpose
