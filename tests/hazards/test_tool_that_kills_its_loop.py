"""A tool that exits, stops or closes the loop it runs on costs its call, not the session."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from outrider.sync import run
from outrider.testing import ScriptedModel, call
from tests.watching import Watched, last_results


async def exits() -> str:
    sys.exit(3)


async def interrupts() -> str:
    raise KeyboardInterrupt


async def closes_the_loop() -> str:
    asyncio.get_running_loop().close()
    return "closed"


async def cancels_itself() -> str:
    task = asyncio.current_task()
    assert task
    task.cancel()
    await asyncio.sleep(0)
    return "still here"


async def raises_cancelled() -> str:
    raise asyncio.CancelledError


async def ends_the_iteration() -> str:
    raise StopAsyncIteration


def exits_in_thread() -> str:
    sys.exit(3)


def stops_iteration_in_thread() -> str:
    raise StopIteration


def closes_a_loop_in_thread() -> str:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.close()
    loop.run_forever()
    return "ran"


@pytest.mark.parametrize(
    "deadly",
    [
        exits,
        interrupts,
        closes_the_loop,
        cancels_itself,
        raises_cancelled,
        ends_the_iteration,
        exits_in_thread,
        stops_iteration_in_thread,
        closes_a_loop_in_thread,
    ],
)
async def test_it_is_an_error_result_and_the_loop_goes_on(deadly: Callable[[], Any]) -> None:
    async def harmless() -> str:
        return "fine"

    watched = Watched([[call(deadly.__name__), call("harmless")], "ok"], [deadly, harmless])
    result = await watched.session.run("go")
    assert (result.status, result.text) == ("done", "ok")
    (text, is_error), sibling = last_results(watched.session)
    assert is_error
    assert deadly.__name__ in text
    assert sibling == ("fine", False)
    watched.check()


def test_a_tool_that_stops_the_loop_under_a_script_does_not_stop_the_script() -> None:
    async def stops() -> str:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)
        return "stopped it"

    result = run("go", tools=[stops], model=ScriptedModel([call("stops"), "went on"]))
    assert (result.status, result.text) == ("done", "went on")
    assert result.conversation[2].tool_results[0].text == "stopped it"


def test_a_loop_that_was_closed_under_a_script_is_an_error_and_not_a_hang() -> None:
    async def closes() -> str:
        loop = asyncio.get_running_loop()

        def closed(*_: Any) -> None:
            loop.close()
            raise RuntimeError("Event loop is closed")

        loop.run_until_complete = closed  # type: ignore[assignment]
        loop.stop()
        await asyncio.Event().wait()
        return "never"

    with pytest.raises(RuntimeError, match="a tool closed the event loop"):
        run("go", tools=[closes], model=ScriptedModel([call("closes")]))
