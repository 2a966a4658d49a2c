"""A stream that is left early leaves a session that can go on at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from outrider import Agent, Log, RunResult, Session, ToolResult
from outrider.errors import SessionBusyError
from outrider.events import RunFinished, TurnStarted
from outrider.testing import Delay, ScriptedModel, call


def scripted(*steps: object) -> Session:
    return Session(Agent(ScriptedModel(list(steps)), tools=[end]))  # type: ignore[arg-type]


def end() -> ToolResult:
    "End the run."
    return ToolResult("That is all.", final=True)


async def test_after_a_break_the_next_run_begins() -> None:
    session = scripted(Delay(60, "Late."), "Hello.")
    async for _ in session.stream("Take your time."):
        break
    assert (await session.run("Hello?")).text == "Hello."


@pytest.mark.parametrize("begin", [asyncio.create_task, lambda run: asyncio.wait_for(run, 60)], ids=["task", "wait"])
async def test_after_a_break_while_it_stores_something_the_next_run_begins_in_a_task_of_its_own(
    tmp_path: Path, begin: Callable[[Any], Awaitable[RunResult[Any]]]
) -> None:
    with Log(tmp_path) as log:
        for _ in range(4):
            async with await Session.open(log, agent=Agent(ScriptedModel(["One.", "Two."]))) as session:
                async for _ in session.stream("One?"):
                    break
                assert (await begin(session.run("Two?"))).status == "done"


async def test_after_a_break_in_mid_reply_the_session_streams_again() -> None:
    session = scripted("One.", "Two.")
    async for _ in session.stream("One?"):
        break
    events = [event async for event in session.stream("Two?")]
    assert isinstance(events[-1], RunFinished)
    assert events[-1].status == "done"


@pytest.mark.parametrize("output", [None, int])
@pytest.mark.parametrize("seen", range(1, 7))
async def test_after_a_break_at_any_event_of_a_run_that_was_quick_the_next_one_begins(
    seen: int, output: type[int] | None
) -> None:
    answer = call("report_back", result=4) if output else "Four."
    session = scripted(answer, answer)
    left = 0
    async for _ in session.stream("How many?", output=output):
        left += 1
        if left == seen:
            break
    assert (await session.run("How many?", output=output)).status == "done"


async def test_a_stream_that_is_still_held_keeps_the_session_busy() -> None:
    session = scripted(Delay(60, "Late."), "Hello.")
    events = session.stream("Take your time.")
    async for _ in events:
        break
    with pytest.raises(SessionBusyError):
        await session.run("Hello?")
    await events.aclose()
    assert (await session.run("Hello?")).text == "Hello."


async def test_a_run_waits_for_the_cancel_of_the_one_before() -> None:
    session = scripted(Delay(60, "Late."), "Hello.")
    asked = asyncio.Event()
    session.observe(lambda event: asked.set() if isinstance(event, TurnStarted) else None)
    running = asyncio.create_task(session.run("Take your time."))
    await asked.wait()
    await asyncio.sleep(0)  # the request is sent
    session.cancel()
    assert (await session.run("Hello?")).text == "Hello."
    assert (await running).status == "cancelled"


async def test_without_a_prompt_a_stream_after_a_final_result_has_its_end_only() -> None:
    session = scripted(call("end"), "Not asked for.")
    assert (await session.run("Go.")).text == "That is all."
    [event] = [event async for event in session.stream()]
    assert isinstance(event, RunFinished)
    assert (event.status, event.text) == ("done", "That is all.")
    assert not session.is_unfinished


async def test_after_a_break_out_of_a_typed_run_the_next_one_begins() -> None:
    session = scripted(Delay(60, "Late."), call("report_back", result=4))
    async for _ in session.stream("Take your time.", output=int):
        break
    assert (await session.run("How many?", output=int)).output == 4
