"""Functions in threads: results and exceptions arrive, and no function can block the loop or the exit."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import queue
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from outrider.tools import threads as threads_module
from outrider.tools.threads import Threads

PATIENCE = 10.0  # seconds until a test that waits is called failed; none waits so long when all is well


def raising(error: BaseException) -> Callable[[], None]:
    def function() -> None:
        raise error

    return function


async def test_the_result_of_the_function_arrives() -> None:
    def function(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        return args, kwargs

    assert await Threads().run(function, 1, 2, a=3) == ((1, 2), {"a": 3})
    assert await Threads().run(lambda: None) is None


async def test_the_function_runs_beside_the_loop() -> None:
    assert await Threads().run(threading.current_thread) is not threading.current_thread()


async def test_the_loop_goes_on_while_the_function_blocks() -> None:
    release = threading.Event()
    task = asyncio.create_task(Threads().run(release.wait, PATIENCE))
    loop_ran = asyncio.Event()
    asyncio.get_running_loop().call_soon(loop_ran.set)
    await loop_ran.wait()
    assert not task.done()
    release.set()
    assert await task is True


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        asyncio.CancelledError("from inside"),
        TimeoutError("slow"),
        StopAsyncIteration(),
        ExceptionGroup("several", [ValueError("a"), KeyError("b")]),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_what_the_function_raises_is_raised_where_it_is_awaited(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught:
        await Threads().run(raising(error))
    assert caught.value is error


async def test_the_traceback_leads_to_the_line_in_the_function() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        await Threads().run(lambda: 1 // 0)
    assert "1 // 0" in str(caught.traceback[-1].statement)


async def test_a_stop_iteration_arrives_as_a_runtime_error_and_nothing_hangs() -> None:
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(RuntimeError) as caught:
            await Threads().run(next, iter(()))
    assert isinstance(caught.value.__cause__, StopIteration)


async def test_a_thread_serves_on_after_an_exception() -> None:
    threads = Threads()
    for error in (SystemExit(1), KeyboardInterrupt(), ValueError("no")):
        with pytest.raises(type(error)):
            await threads.run(raising(error))
    assert await threads.run(str.upper, "still here") == "STILL HERE"


async def test_context_variables_are_visible_and_changes_stay_inside() -> None:
    variable = contextvars.ContextVar("variable", default="default")
    variable.set("outside")

    def function() -> str:
        seen = variable.get()
        variable.set("inside")
        return seen

    threads = Threads()
    assert await threads.run(function) == "outside"
    assert variable.get() == "outside"
    assert await threads.run(function) == "outside", "a thread that is used again has nothing of the last call"


async def test_whoever_waits_can_be_cancelled_and_the_function_runs_on() -> None:
    started, release, ended = threading.Event(), threading.Event(), threading.Event()

    def function() -> None:
        started.set()
        release.wait(PATIENCE)
        ended.set()

    threads = Threads()
    task = asyncio.create_task(threads.run(function))
    assert await threads.run(started.wait, PATIENCE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not ended.is_set()
    release.set()
    assert await threads.run(ended.wait, PATIENCE)


async def test_an_exception_after_the_wait_was_cancelled_disturbs_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads_module, "IDLE_SECONDS", 0.01)
    complaints: list[Any] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    started, release = threading.Event(), threading.Event()
    thread: list[threading.Thread] = []

    def function() -> None:
        thread.append(threading.current_thread())
        started.set()
        release.wait(PATIENCE)
        raise ValueError("unheard")

    threads = Threads()
    task = asyncio.create_task(threads.run(function))
    assert await threads.run(started.wait, PATIENCE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()
    await asyncio.to_thread(thread[0].join, PATIENCE)  # it ends once it has been idle, its report long delivered
    gc.collect()
    assert complaints == []
    assert not thread[0].is_alive()


async def test_a_time_out_ends_the_wait_for_a_function_that_does_not_return() -> None:
    release = threading.Event()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await Threads().run(release.wait, PATIENCE)
    release.set()


def test_a_function_that_ends_after_the_loop_has_closed_ends_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", failures.append)
    monkeypatch.setattr(threads_module, "IDLE_SECONDS", 0.01)
    started, release = threading.Event(), threading.Event()
    thread: list[threading.Thread] = []

    def function() -> None:
        thread.append(threading.current_thread())
        started.set()
        release.wait(PATIENCE)

    async def main() -> None:
        task = asyncio.create_task(Threads().run(function))
        await asyncio.to_thread(started.wait, PATIENCE)
        task.cancel()

    asyncio.run(main())
    release.set()
    thread[0].join(PATIENCE)
    assert not thread[0].is_alive()
    assert failures == []


def test_a_loop_that_closes_at_the_very_moment_of_the_report_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", failures.append)
    monkeypatch.setattr(threads_module, "IDLE_SECONDS", 0.01)
    thread: list[threading.Thread] = []
    reporting, closed = threading.Event(), threading.Event()

    class ClosesFirst(asyncio.SelectorEventLoop):
        """The loop is open when the thread begins its report, and closed when the report arrives."""

        def call_soon_threadsafe(self, *args: Any, **kwargs: Any) -> asyncio.Handle:
            if thread and threading.current_thread() is thread[0]:
                reporting.set()
                closed.wait(PATIENCE)
            return super().call_soon_threadsafe(*args, **kwargs)

    def function() -> None:
        thread.append(threading.current_thread())

    async def main() -> None:
        task = asyncio.create_task(Threads().run(function))
        await asyncio.to_thread(reporting.wait, PATIENCE)
        task.cancel()

    with asyncio.Runner(loop_factory=ClosesFirst) as runner:
        runner.run(main())
    closed.set()
    thread[0].join(PATIENCE)
    assert reporting.is_set()
    assert failures == []


async def test_an_idle_thread_serves_the_next_call() -> None:
    threads = Threads()
    served = {await threads.run(threading.current_thread) for _ in range(100)}
    assert len(served) < 50


async def test_an_idle_thread_ends_after_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads_module, "IDLE_SECONDS", 0.01)
    threads = Threads()
    thread = await threads.run(threading.current_thread)
    await asyncio.to_thread(thread.join, PATIENCE)
    assert not thread.is_alive()
    assert await threads.run(lambda: "another") == "another"


async def test_no_call_is_lost_when_threads_end_as_calls_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads_module, "IDLE_SECONDS", 0.0)
    threads = Threads()
    async with asyncio.timeout(PATIENCE):
        for number in range(500):
            assert await threads.run(lambda: number) == number  # noqa: B023 - it is awaited at once


async def test_a_call_that_comes_at_the_very_moment_a_thread_gives_up_is_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    idle, given = threading.Event(), threading.Event()

    class GivesUpLate(queue.SimpleQueue):  # type: ignore[type-arg]
        """Whoever waits for a limited time hears that nothing came just after something has."""

        def put(self, item: Any) -> None:  # type: ignore[override]
            super().put(item)
            given.set()

        def get(self, block: bool = True, timeout: float | None = None) -> Any:
            if timeout is None:
                return super().get()
            given.clear()
            idle.set()
            given.wait(PATIENCE)
            raise queue.Empty

    await asyncio.to_thread(lambda: None)  # the loop's own threads are there, with a queue that is as it should be
    monkeypatch.setattr(queue, "SimpleQueue", GivesUpLate)
    threads = Threads()
    async with asyncio.timeout(PATIENCE):
        first = await threads.run(threading.current_thread)
        await asyncio.to_thread(idle.wait, PATIENCE)
        idle.clear()
        assert await threads.run(threading.current_thread) is first
        await asyncio.to_thread(idle.wait, PATIENCE)
    given.set()
    await asyncio.to_thread(first.join, PATIENCE)
    assert not first.is_alive()


async def test_two_hundred_functions_run_at_the_same_time() -> None:
    all_there = threading.Barrier(200)
    threads = Threads()
    places = await asyncio.gather(*(threads.run(all_there.wait, PATIENCE) for _ in range(200)))
    assert sorted(places) == list(range(200))


async def test_two_loops_can_share_the_threads() -> None:
    threads = Threads()

    def other_loop() -> str:
        return asyncio.run(threads.run(str.upper, "inner"))

    assert await threads.run(other_loop) == "INNER"


class Heavy:
    """Something that one would not like to keep."""


@pytest.mark.parametrize("held", ["argument", "result"])
async def test_what_a_function_held_is_free_as_soon_as_it_is_done(monkeypatch: pytest.MonkeyPatch, held: str) -> None:
    monkeypatch.setattr(threads_module, "IDLE_SECONDS", 10 * PATIENCE)
    gone = threading.Event()
    heavy = Heavy()
    weakref.finalize(heavy, gone.set)
    await Threads().run(id, heavy) if held == "argument" else await Threads().run(lambda box: box.pop(), [heavy])
    del heavy
    assert await asyncio.to_thread(gone.wait, 30)


def test_a_function_that_never_returns_does_not_keep_the_process_from_ending() -> None:
    code = """
import asyncio, threading
from outrider.tools.threads import Threads

async def main():
    try:
        async with asyncio.timeout(0.05):
            await Threads().run(threading.Event().wait)
    except TimeoutError:
        print("given up", flush=True)

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "given up\n", "")
