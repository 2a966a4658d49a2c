"""A system prompt that is a function of the context."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from outrider import Agent, Log, Session, ToolContext, tool
from outrider.subagents import spawn
from outrider.testing import ScriptedModel, call
from outrider.types import Requested, RunContext


class Clerk:
    """Counts how often it is asked for a prompt."""

    def __init__(self) -> None:
        self.asked = 0

    def prompt(self, context: RunContext[str]) -> str:
        self.asked += 1
        return f"You are {context.deps}, for the {self.asked}. time."


@tool(effect="read")
def look() -> str:
    """Look."""
    return "nothing"


def systems(model: ScriptedModel) -> list[str]:
    """The system prompts of the requests."""
    return [request.system for request in model.requests]


async def test_it_is_called_once_for_each_run_with_the_deps() -> None:
    clerk, model = Clerk(), ScriptedModel([call("look"), "Done.", "Done.", "Done."])
    session = Agent(model, system=clerk.prompt, tools=[look], deps_type=str).session(deps="Ada")
    await session.run("Go.")
    await session.run("Go.", deps="Bob")
    await session.think("Go.")
    one, two, three = "You are Ada, for the 1. time.", "You are Bob, for the 2. time.", "You are Ada, for the 3. time."
    assert systems(model) == [one, one, two, three]


async def test_it_may_be_async_and_knows_the_session(tmp_path: Path) -> None:
    async def prompt(context: RunContext) -> str:
        await asyncio.sleep(0)
        return f"{context.session} in {context.cwd}"

    model = ScriptedModel(["Done."])
    session = Agent(model, system=prompt).session(cwd=tmp_path)
    await session.run("Go.")
    assert systems(model) == [f"{session.id} in {tmp_path}"]


async def test_a_reminder_of_the_report_does_not_call_it_again() -> None:
    clerk = Clerk()
    model = ScriptedModel(["Well.", call("report_back", result=[1])])
    agent = Agent(model, system=clerk.prompt, deps_type=str)
    assert (await agent.run("Go.", output=list[int], deps="Ada")).output == [1]
    assert (clerk.asked, len(model.requests)) == (1, 2)


async def test_the_log_has_the_text_of_each_run(tmp_path: Path) -> None:
    clerk = Clerk()
    agent = Agent(ScriptedModel(["Done.", "Done."]), system=clerk.prompt, deps_type=str)
    with Log(tmp_path) as log:
        async with Session.open(log, agent=agent, deps="Ada") as session:
            await session.run("Go.")
            await session.run("Go.")
        stored = [row.entry.system for row in log.records(session.id) if isinstance(row.entry, Requested)]
    assert stored == ["You are Ada, for the 1. time.", "You are Ada, for the 2. time."]


async def test_nothing_is_stored_or_sent_if_it_fails(tmp_path: Path) -> None:
    def prompt(context: RunContext) -> str:
        raise LookupError(context.session)

    model = ScriptedModel(["Done."])
    with Log(tmp_path) as log:
        async with Session.open(log, agent=Agent(model, system=prompt)) as session:
            with pytest.raises(LookupError):
                await session.run("Go.")
            assert (session.messages, model.requests) == ([], [])
            session.agent = Agent(model)
            assert (await session.run("Go.")).output == "Done."


async def test_a_run_can_be_cancelled_while_it_is_made() -> None:
    begun = asyncio.Event()

    async def prompt(context: RunContext) -> str:
        begun.set()
        await asyncio.sleep(60)
        return ""

    session = Agent("demo", system=prompt).session()
    running = asyncio.ensure_future(session.run("Go."))
    await begun.wait()
    session.cancel()
    assert (await running).status == "cancelled"


async def test_sub_agents_have_theirs() -> None:
    clerk, model = Clerk(), ScriptedModel(["Child."])

    @tool
    async def delegate(context: ToolContext[str]) -> str:
        """Delegate."""
        child = await spawn(context, Agent(model, system=clerk.prompt, deps_type=str))
        return (await child.run("Go.")).text

    await Agent(ScriptedModel([call("delegate"), "Done."]), tools=[delegate], deps_type=str).run("Go.", deps="Ada")
    assert systems(model) == ["You are Ada, for the 1. time."]


def wrong(context: RunContext) -> Any:
    return 3


async def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(TypeError, match="system is text or a function that returns it, not int"):
        Agent("demo", system=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a function of the context: def prompt"):
        Agent("demo", system=lambda: "Be brief.")  # type: ignore[arg-type, misc]
    with pytest.raises(TypeError, match="returned int; it must return text"):
        await Agent("demo", system=wrong).run("Go.")
