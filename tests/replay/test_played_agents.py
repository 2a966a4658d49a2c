"""A replay asks no model and runs no tool of the agent that is given, nor of those within its reach."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from outrider import Agent, Compaction, Hooks, Log, Session, tool
from outrider.errors import LogError, ProviderError
from outrider.hooks import AfterTool, BeforeTool, HookResult
from outrider.log.session_id import shown_id
from outrider.providers.base import Request
from outrider.subagents import spawn
from outrider.testing import ScriptedModel, Step, call, replay
from outrider.tools.approval import Deny
from outrider.tools.context import ToolContext
from outrider.types import ToolsFrom


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with Log(tmp_path / "log") as log:
        yield log


@pytest.fixture
def seen() -> list[str]:
    """What ran."""
    return []


async def recorded(log: Log, agent: Agent, name: str = "s") -> str:
    async with Session.open(log, name, agent, create=True) as session:
        await session.run("Go.")
        return session.id


def looking(seen: list[str], result: str = "seen") -> Agent:
    """Return an agent that looks once."""

    def look(where: str) -> str:
        "Look."
        seen.append(where)
        return result

    return Agent(ScriptedModel([call("look", where="left"), "Done."]), tools=[look])


def team(seen: list[str]) -> Agent:
    """Return an agent that hands over to one that hands over to another, which hands over to the first one."""

    def refund() -> str:
        "Refund an order."
        seen.append("refund")
        return "refunded"

    async def note(event: AfterTool) -> None:
        seen.append(f"hook after {event.tool}")

    def says(name: str, *steps: Step) -> ScriptedModel:
        left = list(steps)

        def reply(request: Request) -> Step:
            seen.append(name)
            return left.pop(0)

        return ScriptedModel(reply, window=100_000)

    billing = Agent(
        [
            says("billing", ProviderError("overloaded", status=500)),
            says("other", call("refund"), call("handoff", to="triage")),
        ],
        name="billing",
        description="Refunds.",
        tools=[refund],
        hooks=Hooks(after_tool=note),
        compaction=Compaction(threshold=0.5),
        handoffs=["triage"],
    )
    legal = Agent(says("legal", call("handoff", to="billing")), name="legal", handoffs=[billing])
    first = says("triage", call("handoff", to="legal"), "Refunded.")
    return Agent(first, name="triage", handoffs=[legal, billing])


async def test_the_agents_that_are_handed_over_to_are_played_too(log: Log, seen: list[str]) -> None:
    agent = team(seen)
    session = await recorded(log, agent)
    assert {"triage", "legal", "billing", "other", "refund", "hook after refund"} == {*seen} - {"hook after handoff"}
    seen.clear()
    found = await replay(log, session, agent)
    assert (found.difference, seen) == (None, [])
    found = await replay(log, session, agent, tools="run")
    assert (found.difference, seen) == (None, ["refund"])


async def test_a_sub_agent_whose_tool_runs_is_played_with_its_handoffs(log: Log, seen: list[str]) -> None:
    sub_agent = team(seen)

    @tool
    async def delegate(context: ToolContext) -> str:
        "Let another one do it."
        async with await spawn(context, sub_agent) as child:
            return (await child.run("Help.")).text

    agent = Agent(ScriptedModel([call("delegate"), "Done."]), tools=[delegate])
    session = await recorded(log, agent)
    seen.clear()
    found = await replay(log, session, agent, tools="run")
    assert (found.difference, seen) == (None, ["refund"])


async def test_a_tool_that_a_call_stands_for_does_not_run(log: Log, seen: list[str]) -> None:
    (real,) = looking(seen).tools
    short = msgspec.structs.replace(real, name="short", stands_for=lambda given: (real, given))
    agent = Agent(ScriptedModel([call("short", where="left"), "Done."]), tools=[short])
    session = await recorded(log, agent)
    assert (await replay(log, session, agent)).difference is None
    assert seen == ["left"]


async def test_tools_run_again_with_the_arguments_that_a_hook_gave_them(log: Log, seen: list[str]) -> None:
    async def change(event: BeforeTool) -> HookResult:
        seen.append("hook")
        return HookResult(input={"where": "right"}, context="It was changed.")

    agent = looking(seen).replace(hooks=Hooks(before_tool=change))
    session = await recorded(log, agent)
    assert seen == ["hook", "right"]
    seen.clear()
    assert (await replay(log, session, agent, tools="run")).difference is None
    assert seen == ["right"]
    found = await replay(log, session, looking(seen, "nothing"), tools="run")
    assert found.difference
    assert (found.difference.recorded, found.difference.replayed) == ("seen", "nothing")


@pytest.mark.parametrize("source", ["recorded", "run"])
async def test_a_denied_call_is_denied_with_the_same_words(log: Log, seen: list[str], source: ToolsFrom) -> None:
    async def block(event: BeforeTool) -> HookResult:
        return HookResult(block="not today")

    blocked = looking(seen).replace(hooks=Hooks(before_tool=block))
    assert (await replay(log, await recorded(log, blocked), blocked, tools=source)).difference is None
    both = [call("look", where="left"), call("look", where="right")]
    agent = looking(seen).replace(model=ScriptedModel([both, "Done."]))
    async with Session.open(log, agent=agent, approve=lambda use, tool: Deny("no", ends_run=True)) as session:
        await session.run("Go.")
        await session.run("Do not look.")
    assert (await replay(log, session.id, agent, tools=source)).difference is None
    assert seen == []


async def test_a_goal_that_a_function_checked_is_called_one(log: Log) -> None:
    async def is_done() -> bool:
        return True

    async with Session.open(log, "order-17-refund", Agent(ScriptedModel(["Done."])), create=True) as session:
        await session.run("Go.", until=is_done)
    with pytest.raises(LogError, match=r"a function, is_done, checked its goal .*sessions show order-17-refund`"):
        await replay(log, session.id)


async def test_an_id_of_the_user_s_own_is_shown_whole(log: Log, seen: list[str]) -> None:
    session = await recorded(log, looking(seen), "order-17-refund")
    found = await replay(log, session, looking(seen).replace(system="Be brief."))
    assert str(found.difference).startswith("entry 6 of order-17-refund: request, system")
    assert shown_id("0123456789abcdef" * 2) == "01234567"
