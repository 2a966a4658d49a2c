"""Dependencies of tools: for a run or for a session, of the type that the agent names."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest

from outrider import Agent, Log, Profile, Session, ToolContext, tool, with_subagents
from outrider.batches import batch
from outrider.providers.base import Request
from outrider.subagents import spawn
from outrider.testing import ScriptedModel, Step, call


@dataclass
class Shop:
    name: str
    asked: list[str] = field(default_factory=list)


@dataclass
class BookShop(Shop):
    pages: int = 0


@tool(effect="read")
def ask_shop(what: str, context: ToolContext[Shop]) -> str:
    """Ask the shop."""
    context.deps.asked.append(what)
    return context.deps.name


def scripted(count: int = 1) -> ScriptedModel:
    return ScriptedModel([step for _ in range(count) for step in (call("ask_shop", what="price"), "Done.")])


def agent(count: int = 1) -> Agent[Shop]:
    return Agent(scripted(count), tools=[ask_shop], deps_type=Shop)


def answers(session: Session[Any]) -> list[str]:
    """What the tools have said."""
    return [result.text for message in session.messages for result in message.tool_results]


async def test_a_run_gets_deps() -> None:
    shop = Shop("Ulm")
    assert (await agent().run("Go.", deps=shop)).status == "done"
    assert await agent().ask("Go.", deps=shop) == "Done."
    assert [event async for event in agent().stream("Go.", deps=shop)]
    assert shop.asked == ["price"] * 3


async def test_the_deps_of_a_run_replace_those_of_its_session_for_that_run() -> None:
    session = agent(3).session(deps=Shop("Ulm"))
    await session.run("Go.")
    await session.run("Go.", deps=BookShop("Linz"))
    await session.run("Go.")
    assert answers(session) == ["Ulm", "Linz", "Ulm"]


async def test_a_session_in_a_log_gets_deps_each_time_it_is_opened(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        async with Session.open(log, agent=agent(), deps=Shop("Ulm")) as session:
            await session.think("Go.")
        async with Session.open(log, session.id, agent(), deps=Shop("Linz")) as session:
            await session.act()
            assert answers(session) == ["Linz"]


async def test_an_agent_that_changes_keeps_the_deps_of_the_session() -> None:
    session = agent().session(deps=Shop("Ulm"))
    session.agent = agent(2)
    await session.run("Go.")
    assert answers(session) == ["Ulm"]


NO_SHOP: Any = "not a shop"


async def test_deps_of_another_type_are_refused(tmp_path: Path) -> None:
    says = "deps is str, and the agent needs Shop"
    with pytest.raises(TypeError, match=says):
        await agent().run("Go.", deps=NO_SHOP)
    with pytest.raises(TypeError, match=says):
        agent().session(deps=NO_SHOP)
    with Log(tmp_path) as log, pytest.raises(TypeError, match=says):
        Session.open(log, agent=agent(), deps=NO_SHOP)


async def test_missing_deps_are_refused_before_anything_is_sent_or_stored(tmp_path: Path) -> None:
    model = scripted()
    with Log(tmp_path) as log:
        async with Session.open(log, agent=Agent(model, tools=[ask_shop], deps_type=Shop)) as session:
            with pytest.raises(TypeError, match=r"needs deps; pass deps=Shop\(…\) to the run or to the session"):
                await session.run("Go.")
            assert (session.messages, model.requests) == ([], [])
            assert (await session.run("Go.", deps=Shop("Ulm"))).status == "done"


async def test_calls_do_not_run_without_deps() -> None:
    session = agent().session()
    await session.think("Go.")
    with pytest.raises(TypeError, match="needs deps"):
        await session.act()


async def test_deps_for_an_agent_without_a_deps_type_are_refused() -> None:
    with pytest.raises(TypeError, match=r"takes no deps; write Agent\(…, deps_type=Shop\)"):
        await Agent("demo").run("Go.", deps=Shop("Ulm"))  # type: ignore[call-overload]


def test_a_tool_with_other_deps_than_its_agent_is_refused() -> None:
    with pytest.raises(TypeError, match=r"ask_shop takes ToolContext\[Shop\].* write Agent\(…, deps_type=Shop\)"):
        Agent("demo", tools=[ask_shop])
    with pytest.raises(TypeError, match=r"ask_shop takes ToolContext\[Shop\], and the deps_type of the agent is str"):
        Agent("demo", tools=[ask_shop], deps_type=str)
    Agent("demo", tools=[ask_shop], deps_type=BookShop)


class Named(Protocol):
    name: str


@pytest.mark.parametrize("deps_type", [Named, Shop | None, dict[str, str] | Shop])
async def test_deps_may_be_of_types_that_are_no_classes(deps_type: Any) -> None:
    def greet(context: ToolContext[Any]) -> str:
        """Greet."""
        return str(context.deps.name)

    greeter = Agent(ScriptedModel([call("greet"), "Done."]), tools=[greet], deps_type=deps_type)
    assert (await greeter.run("Go.", deps=Shop("Ulm"))).messages[2].tool_results[0].text == "Ulm"


async def test_sub_agents_inherit_deps() -> None:
    def answer(request: Request) -> Step:
        if any(each.name == "Task" for each in request.tools):
            done = request.messages[-1].tool_results
            return "Done." if done else call("Task", description="ask", prompt="Ask it.", subagent_type="Clerk")
        return "Asked." if request.messages[-1].tool_results else call("ask_shop", what="price")

    shop = Shop("Ulm")
    clerk = Profile(name="Clerk", description="Asks.")
    team = with_subagents(Agent(ScriptedModel([answer] * 4), tools=[ask_shop], deps_type=Shop), [clerk])
    assert (await team.run("Go.", deps=shop)).status == "done"
    assert shop.asked == ["price"]


async def test_a_spawned_agent_of_other_deps_gets_its_own() -> None:
    children: list[Session[Any]] = []

    @tool
    async def delegate(context: ToolContext[str]) -> str:
        """Delegate."""
        child = await spawn(context, agent())
        children.append(child)
        return (await child.run("Go.", deps=Shop(context.deps))).text

    outer = Agent(ScriptedModel([call("delegate"), "Done."]), tools=[delegate], deps_type=str)
    await outer.run("Go.", deps="Ulm")
    assert answers(children[0]) == ["Ulm"]


async def test_a_batch_gets_deps(tmp_path: Path) -> None:
    shop = Shop("Ulm")
    with Log(tmp_path) as log:
        found = [result async for result in batch(agent(), ["Go."], log=log, deps=shop)]
        with pytest.raises(TypeError, match="needs deps"):
            await anext(batch(agent(), ["Go."], log=log))
    assert ([result.status for result in found], shop.asked) == (["done"], ["price"])
