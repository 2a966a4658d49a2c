"""Time limits for many waits with one timer."""

from __future__ import annotations

import asyncio

import pytest

from outrider.providers.idle_watch import IdleWatch, Wait


async def test_a_wait_that_takes_too_long_fails_and_its_task_goes_on() -> None:
    wait = Wait(IdleWatch(), 0.01)
    with pytest.raises(TimeoutError), wait:
        await asyncio.Event().wait()
    task = asyncio.current_task()
    assert task
    assert task.cancelling() == 0
    with wait:
        await asyncio.sleep(0)


async def test_each_wait_has_its_own_time() -> None:
    watch, ended = IdleWatch(), []

    async def waiting(wait: Wait) -> None:
        with pytest.raises(TimeoutError), wait:
            await asyncio.Event().wait()
        ended.append(wait)

    waits = [Wait(watch, seconds) for seconds in (0.1, 0.01, 0.05)]
    await asyncio.gather(*map(waiting, waits))
    assert ended == sorted(waits, key=lambda wait: wait.deadline)


async def test_a_wait_begins_anew_each_time() -> None:
    watch = IdleWatch()
    long, short = Wait(watch, 60), Wait(watch, 0.05)
    with long:
        await asyncio.sleep(0)
    with pytest.raises(TimeoutError), short:
        await asyncio.Event().wait()
    with pytest.raises(TimeoutError), short:
        await asyncio.Event().wait()


async def test_a_cancel_from_elsewhere_is_no_time_limit() -> None:
    async def waiting() -> None:
        with Wait(IdleWatch(), 60):
            await asyncio.Event().wait()

    task = asyncio.ensure_future(waiting())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancel_beside_the_time_limit_goes_on() -> None:
    watch = IdleWatch()
    wait = Wait(watch, 60)

    async def waiting() -> None:
        with wait:
            await asyncio.Event().wait()

    task = asyncio.ensure_future(waiting())
    await asyncio.sleep(0)
    wait.expire()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
