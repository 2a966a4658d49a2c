"""A call that may write and is stopped while it runs has an unknown outcome, however it was stopped."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from outrider import Agent, Log, Session, tool
from outrider.testing import ScriptedModel, call
from outrider.tools.tool import Effect


def stuck(effect: Effect, started: asyncio.Event) -> object:
    @tool(effect=effect)
    async def work() -> str:
        """Work for ever."""
        started.set()
        await asyncio.Event().wait()
        return "done"

    return work


@pytest.mark.parametrize(("effect", "outcome"), [("write", "unknown"), ("idempotent", "unknown"), ("read", "failed")])
async def test_a_cancelled_call(effect: Effect, outcome: str, tmp_path: Path) -> None:
    started = asyncio.Event()
    agent = Agent(ScriptedModel([call("work"), "Bye."]), tools=[stuck(effect, started)])
    log = Log(tmp_path)
    async with Session.open(log, agent=agent) as session:
        running = asyncio.create_task(session.run("Go."))
        await started.wait()
        session.cancel()
        await running
        (result,) = session.messages[-1].tool_results
        assert result.outcome == outcome
        assert ("check before you repeat it" in result.text) == (outcome == "unknown")
    (stored,) = [found for message in log.messages(session.id) for found in message.tool_results]
    assert stored == result


async def test_a_call_that_ran_out_of_time() -> None:
    agent = Agent(ScriptedModel([call("work"), "Bye."]), tools=[stuck("write", asyncio.Event())])
    agent = agent.replace(limits=agent.limits.__class__(tool_seconds=0.01))
    result = await Session(agent).run("Go.")
    assert [each.outcome for message in result.messages for each in message.tool_results] == ["unknown"]


async def test_a_call_that_failed_or_never_began_is_not_unknown() -> None:
    @tool
    async def work() -> str:
        """Fail."""
        raise RuntimeError("no")

    agent = Agent(ScriptedModel([(call("work"), call("other"), call("work", wrong=1)), "Bye."]), tools=[work])
    result = await Session(agent).run("Go.")
    assert [each.outcome for message in result.messages for each in message.tool_results] == ["failed"] * 3
