"""Async code that is run from sync code."""

from __future__ import annotations

import asyncio

import pytest

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
