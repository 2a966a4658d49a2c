"""Run async code from sync code: in scripts, and in notebooks whose event loop is running already."""

from __future__ import annotations

import asyncio
import contextvars
import signal
import socket
import sys
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Generic, TypeVar

from outrider.runtime.exclusive_task import running_loop

T = TypeVar("T")

GRACE = 1.0
"""Seconds that leftover tasks have to end."""
SIGNAL_SECONDS = 0.5
"""How long a thread waits at a time: Python handles a signal that comes just before a wait only after it."""


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, also where an event loop is running already, as in a notebook."""
    driver = _Driver(work)
    return driver.run_in_thread() if running_loop() else driver.run()


def check_may_block(verb: str, instead: str) -> None:
    """Raise RuntimeError where a sync verb would block a running event loop: everywhere but in a notebook's cell."""
    if running_loop() and not _is_notebook():
        raise RuntimeError(f"{verb}() would block the event loop that is running here; write {instead}")


def _is_notebook() -> bool:
    """Return whether a notebook runs this code: its loop has nothing else to do while a cell runs."""
    ipython, marimo = sys.modules.get("IPython"), sys.modules.get("marimo")
    return bool((ipython and ipython.get_ipython()) or (marimo and marimo.running_in_notebook()))


@contextmanager
def _woken_by_signals(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Let signals wake the loop: otherwise one that arrives just before a wait is handled only after it."""
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
            signal.set_wakeup_fd(before)  # the loop is closed by now, and has forgotten its readers


class _Driver(Generic[T]):
    """Runs one coroutine on an event loop of its own."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._task: asyncio.Task[T] | None = None
        self._starting = threading.Lock()
        self._cancelled = False

    def run(self) -> T:
        """Run in this thread. Ctrl-C cancels the work, and is raised when the work has ended."""
        with self._starting:
            if self._cancelled:
                raise asyncio.CancelledError
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
                    # A tool stopped the loop, but not the work.
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
        """Run in a new thread with its own loop, and wait for it."""
        outcome: list[T] = []
        failure: list[BaseException] = []
        ended = threading.Event()  # not Thread.join: after an interrupt it is not reliable

        def target() -> None:
            try:
                outcome.append(self.run())
            except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
                failure.append(error)
            finally:
                ended.set()

        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(target,), name="outrider-run", daemon=True)
        try:
            thread.start()  # waits for the thread as well
            while not ended.wait(SIGNAL_SECONDS):
                pass
        except BaseException:  # Ctrl-C in the waiting thread: the work must stop as well
            if self._cancel():
                ended.wait()
            raise
        if failure:
            raise failure[0]
        return outcome[0]

    def _cancel(self) -> bool:
        """Cancel the work from another thread. Return whether it had begun; otherwise it never will."""
        with self._starting:
            self._cancelled = True
        if self._task is None:
            self._work.close()
            return False
        with suppress(RuntimeError):  # the work has just ended, and its loop is closed
            self._runner.get_loop().call_soon_threadsafe(self._task.cancel)
        return True


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """Close a loop without waiting for tasks that do not end."""
    leftovers = asyncio.all_tasks(loop)
    if not loop.is_closed():
        for task in leftovers:
            task.cancel()
        if leftovers:
            loop.run_until_complete(asyncio.wait(leftovers, timeout=GRACE))
        loop.run_until_complete(asyncio.wait_for(loop.shutdown_asyncgens(), GRACE))  # noqa: TID251 - nothing cancels it
        loop.close()
    for task in leftovers:
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # abandoned on purpose
