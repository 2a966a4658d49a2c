"""Async code that is run from sync code."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator

import pytest

from outrider.runtime import event_loop
from outrider.runtime.event_loop import run_sync


async def fail() -> None:
    raise RuntimeError("broken")


def test_an_error_of_the_work_is_raised() -> None:
    with pytest.raises(RuntimeError, match=r"^broken$"):
        run_sync(fail())


async def test_an_error_of_the_work_is_raised_where_a_loop_runs() -> None:
    with pytest.raises(RuntimeError, match=r"^broken$"):
        run_sync(fail())


def test_work_goes_on_after_something_stopped_the_loop() -> None:
    async def work() -> str:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)
        return "done"

    assert run_sync(work()) == "done"


@pytest.fixture
def _interrupts() -> Iterator[None]:
    """Ctrl-C raises, as in a notebook: there is no runner of asyncio that has its own idea of it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interrupts")
def test_ctrl_c_in_a_notebook_stops_the_work_before_it_is_raised() -> None:
    ended: list[str] = []
    main = threading.main_thread().ident
    assert main

    async def work() -> None:
        signal.pthread_kill(main, signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("stopped")

    async def cell() -> None:
        run_sync(work())

    notebook = asyncio.new_event_loop()
    try:
        with pytest.raises(KeyboardInterrupt):
            notebook.run_until_complete(cell())
    finally:
        notebook.close()
    assert ended == ["stopped"]


def test_ctrl_c_before_the_work_has_begun_keeps_it_from_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    threads: list[threading.Thread] = []

    async def work() -> None:
        begun.append("begun")

    def interrupted(thread: threading.Thread) -> None:
        threads.append(thread)
        raise KeyboardInterrupt

    async def cell() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", interrupted)
            with pytest.raises(KeyboardInterrupt):
                run_sync(work())

    asyncio.run(cell())
    threads[0].start()  # the system may start it a moment later
    threads[0].join()
    assert begun == []


def test_tasks_that_work_leaves_behind_are_cancelled() -> None:
    ended: list[str] = []

    async def left_behind() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    async def work() -> str:
        tasks.append(asyncio.create_task(left_behind()))
        await asyncio.sleep(0)
        return "done"

    tasks: list[asyncio.Task[None]] = []
    assert run_sync(work()) == "done"
    assert ended == ["cancelled"]


def test_a_task_that_does_not_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loop, "GRACE", 0.05)
    tasks: list[asyncio.Task[None]] = []

    async def stubborn() -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    async def work() -> str:
        tasks.append(asyncio.create_task(stubborn()))
        await asyncio.sleep(0)
        return "done"

    assert run_sync(work()) == "done"
    assert not tasks[0].done()


def test_a_loop_that_was_closed_under_the_work_is_an_error_and_not_an_endless_retry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class ClosedWhenStopped(asyncio.SelectorEventLoop):
        """A tool in a thread waits until the loop has stopped, and closes it."""

        def run_forever(self) -> None:
            super().run_forever()
            self.close()

    async def work() -> None:
        asyncio.get_running_loop().stop()
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio, "new_event_loop", ClosedWhenStopped)
    with pytest.raises(RuntimeError, match="a tool closed the event loop that it ran on"):
        run_sync(work())
