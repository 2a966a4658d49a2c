"""One task at a time, which can be cancelled from any thread."""

from __future__ import annotations

import asyncio
import inspect
import threading

import pytest

from outrider.errors import SessionBusyError, SessionCancelledError
from outrider.runtime.exclusive_task import ExclusiveTask


class Job:
    """Something that takes as long as it is let."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.goes_on = asyncio.Event()
        self.ended = ""

    async def __call__(self) -> str:
        self.begun.set()
        try:
            await self.goes_on.wait()
            self.ended = "done"
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # cleaning up takes a moment
            self.ended = "cancelled"
            raise
        return self.ended


async def test_what_is_done_comes_back_and_what_it_raises_too() -> None:
    async def fail() -> None:
        raise KeyError("lost")

    async def give() -> int:
        return 5

    work = ExclusiveTask()
    assert await work.do(give()) == 5
    with pytest.raises(KeyError, match="lost"):
        await work.do(fail())
    assert await work.do(give()) == 5


async def test_a_second_thing_at_the_same_time_is_refused_and_the_first_goes_on() -> None:
    work, job = ExclusiveTask(), Job()
    doing = asyncio.ensure_future(work.do(job()))
    await job.begun.wait()
    second = job()
    with pytest.raises(SessionBusyError, match="cancel"):
        await work.do(second)
    assert inspect.getcoroutinestate(second) == inspect.CORO_CLOSED, "it is closed: nobody is warned of it later"
    job.goes_on.set()
    assert await doing == "done"


@pytest.mark.parametrize("where", ["here", "in a thread"])
async def test_a_cancel_ends_the_work_and_not_its_waiter(where: str) -> None:
    work, job = ExclusiveTask(), Job()
    doing = asyncio.ensure_future(work.do(job()))
    await job.begun.wait()
    if where == "here":
        work.cancel()
    else:
        thread = threading.Thread(target=work.cancel)
        thread.start()
        await asyncio.to_thread(thread.join)
    with pytest.raises(SessionCancelledError):
        await doing
    assert job.ended == "cancelled"
    again = Job()
    again.goes_on.set()
    assert await work.do(again()) == "done", "it can be used again"


async def test_a_cancel_from_a_loop_in_another_thread_reaches_it() -> None:
    work, job = ExclusiveTask(), Job()
    doing = asyncio.ensure_future(work.do(job()))
    await job.begun.wait()

    async def elsewhere() -> None:
        work.cancel()

    await asyncio.to_thread(lambda: asyncio.run(elsewhere()))
    with pytest.raises(SessionCancelledError):
        await doing


async def test_a_cancel_of_the_waiter_ends_the_work_first() -> None:
    work, job = ExclusiveTask(), Job()
    doing = asyncio.ensure_future(work.do(job()))
    await job.begun.wait()
    doing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await doing
    assert job.ended == "cancelled"


@pytest.mark.parametrize("first", ["the work", "the caller"])
async def test_where_both_are_cancelled_the_caller_is(first: str) -> None:
    work, job = ExclusiveTask(), Job()
    doing = asyncio.ensure_future(work.do(job()))
    await job.begun.wait()
    for cancel in (work.cancel, doing.cancel) if first == "the work" else (doing.cancel, work.cancel):
        cancel()
    with pytest.raises(asyncio.CancelledError):
        await doing


async def test_a_time_out_around_it_is_a_time_out() -> None:
    work, job = ExclusiveTask(), Job()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await work.do(job())
    assert job.ended == "cancelled"


async def test_work_that_is_cancelled_before_it_begins_is_closed() -> None:
    """A coroutine that was never awaited would be warned of."""
    work, job = ExclusiveTask(), Job()
    coroutine = job()
    doing = asyncio.ensure_future(work.do(coroutine))
    await asyncio.sleep(0)  # now it waits for its task, which has not begun
    work.cancel()
    with pytest.raises(SessionCancelledError):
        await doing
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED
    assert not job.begun.is_set()


async def test_a_cancel_of_nothing_is_nothing() -> None:
    work = ExclusiveTask()
    work.cancel()
    job = Job()
    job.goes_on.set()
    assert await work.do(job()) == "done"
    work.cancel()
    assert await work.do(ready()) == "done"


async def ready() -> str:
    return "done"


async def test_work_that_cancels_itself_is_not_a_cancel_by_the_user() -> None:
    async def give_up() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await ExclusiveTask().do(give_up())


async def test_work_that_does_not_heed_a_cancel_gives_its_result() -> None:
    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done all the same"
        return ""

    work = ExclusiveTask()
    doing = asyncio.ensure_future(work.do(stubborn()))
    for _ in range(3):
        await asyncio.sleep(0)
    work.cancel()
    assert await doing == "done all the same"


async def test_work_that_is_being_cancelled_cannot_wait_for_itself() -> None:
    alone, seen = ExclusiveTask(), list[type]()
    begun = asyncio.Event()

    async def again() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            try:
                await alone.do(asyncio.sleep(0))
            except SessionBusyError as error:
                seen.append(type(error))
            raise

    running = asyncio.ensure_future(alone.do(again()))
    await begun.wait()
    alone.cancel()
    with pytest.raises(SessionCancelledError):
        await running
    assert seen == [SessionBusyError]
    assert not alone.is_busy


async def test_stopping_waits_for_the_end() -> None:
    alone, job = ExclusiveTask(), Job()
    running = asyncio.ensure_future(alone.do(job()))
    await job.begun.wait()
    await alone.stop()
    assert (job.ended, alone.is_busy) == ("cancelled", False)
    with pytest.raises(SessionCancelledError):
        await running
    await alone.stop()
