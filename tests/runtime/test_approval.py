"""Approval: when an approver is asked, and what happens after a denial."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from outrider import Agent, Allow, Deny, Log, Message, Session, ToolUseBlock, tool
from outrider.log.entries import CallResult, Intent
from outrider.runtime.events import Event, ToolFinished, ToolStarted
from outrider.testing import ScriptedModel, call
from outrider.tools.approval import Approver
from outrider.tools.tool import Tool


def asking(answers: dict[str, str], asked: list[str] | None = None) -> Approver:
    async def approve(use: ToolUseBlock, tool: Tool) -> Allow | Deny:
        if asked is not None:
            asked.append(use.id)
        return Deny(answers[use.name]) if use.name in answers else Allow()

    return approve


def calls(*names: str) -> Message:
    return Message.assistant(*(ToolUseBlock(f"c{number}", name, {}) for number, name in enumerate(names, 1)))


@pytest.fixture
def done() -> list[str]:
    return []


@pytest.fixture
def agent(done: list[str]) -> Agent:
    @tool(concurrent=False)
    def write() -> str:
        """Change something."""
        done.append("write")
        return "written"

    @tool(effect="read")
    def look() -> str:
        """Look at something."""
        done.append("look")
        return "seen"

    return Agent(model=ScriptedModel([calls("look", "write", "look"), "Fine."]), tools=[write, look])


async def test_a_refused_call_is_not_run_and_its_siblings_are(agent: Agent, done: list[str]) -> None:
    seen: list[Event] = []
    session = Session(agent, approve=asking({"write": "the user said no"}), observer=seen.append)
    result = await session.run("go")
    assert result.status == "done"
    assert done == ["look", "look"]
    results = session.messages[2].tool_results
    assert [each.is_error for each in results] == [False, True, False]
    assert results[1].text == "write was not run: the user said no"
    assert [event.call_id for event in seen if isinstance(event, ToolStarted)] == ["c1", "c3"]
    assert {event.call_id for event in seen if isinstance(event, ToolFinished)} == {"c1", "c2", "c3"}


@pytest.mark.parametrize(
    ("names", "denied", "ran"),
    [(("look", "write", "look"), "c2", ["look"]), (("look", "look", "look", "write"), "c2", ["look"])],
    ids=["one after the other", "side by side"],
)
async def test_a_denial_can_end_the_run_with_the_calls_that_have_not_started(
    agent: Agent, done: list[str], names: tuple[str, ...], denied: str, ran: list[str], tmp_path: Path
) -> None:
    asked: list[str] = []

    async def approve(use: ToolUseBlock, tool: Tool) -> Allow | Deny:
        asked.append(use.id)
        return Deny("stop", ends_run=True) if use.id == denied else Allow()

    model = ScriptedModel([calls(*names), "Something else."])
    log = Log(tmp_path)
    with Session.open(log, agent=agent.replace(model=model), approve=approve) as session:
        result = await session.run("go")
        assert (result.status, done, asked) == ("done", ran, ["c1", "c2"])
        results = session.messages[2].tool_results
        assert [each.is_error for each in results] == [False, *[True] * (len(names) - 1)]
        assert results[1].text.endswith("was not run: stop")
        assert all("another call of this reply was denied" in each.text for each in results[2:])
        name = session.id
    with Session.open(log, name, agent.replace(model=model), approve=approve) as session:
        assert (await session.run("do that")).text == "Something else."


async def test_a_call_that_must_be_alone_is_asked_about_after_those_before_it(agent: Agent, done: list[str]) -> None:
    order: list[tuple[str, list[str]]] = []

    async def approve(use: ToolUseBlock, tool: Tool) -> Allow | Deny:
        order.append((use.id, list(done)))
        return Allow()

    await Session(agent, approve=approve).run("go")
    assert order == [("c1", []), ("c2", ["look"]), ("c3", ["look", "write"])]


async def test_an_approver_that_cannot_decide_denies(agent: Agent, done: list[str]) -> None:
    async def approve(use: ToolUseBlock, tool: Tool) -> Allow | Deny:
        raise ValueError("no idea")

    session = Session(agent, approve=approve)
    await session.run("go")
    assert done == []
    assert "look was not run: the approver failed: ValueError: no idea" in session.messages[2].tool_results[0].text


async def test_a_cancel_while_a_person_is_asked_answers_every_call(agent: Agent, done: list[str]) -> None:
    asked = asyncio.Event()

    async def approve(use: ToolUseBlock, tool: Tool) -> Allow | Deny:
        asked.set()
        await asyncio.Event().wait()
        return Allow()

    session = Session(agent, approve=approve)
    running = asyncio.ensure_future(session.run("go"))
    await asked.wait()
    session.cancel()
    assert (await running).status == "cancelled"
    assert done == []
    assert [each.is_error for each in session.messages[2].tool_results] == [True, True, True]


async def test_unknown_tools_and_broken_arguments_are_not_asked_about() -> None:
    asked: list[str] = []
    broken = ToolUseBlock("c2", "look", {}, invalid_input="{")

    @tool
    def look() -> str:
        """Look."""
        return ""

    model = ScriptedModel([Message.assistant(ToolUseBlock("c1", "nothing", {}), broken), "Fine."])
    await Session(Agent(model=model, tools=[look]), approve=asking({}, asked)).run("go")
    assert asked == []


async def test_an_intent_is_on_disk_only_for_calls_that_were_allowed(
    agent: Agent, done: list[str], tmp_path: Path
) -> None:
    with Log(tmp_path) as log, Session.open(log, agent=agent, approve=asking({"write": "no"})) as session:
        await session.run("go")
        entries = [record.entry for record in log.records(session.id)]
    assert [entry.call_id for entry in entries if isinstance(entry, Intent)] == ["c1", "c3"]
    assert len([entry for entry in entries if isinstance(entry, CallResult)]) == 3


async def test_a_call_that_was_cut_off_is_asked_about_again(agent: Agent, done: list[str], tmp_path: Path) -> None:
    asked: list[str] = []
    with Log(tmp_path) as log:
        with Session.open(log, agent=agent) as session:
            await session.think("go")
            name = session.id
        refusing = asking({"look": "not any more", "write": "neither"}, asked)
        with Session.open(log, name, agent, approve=refusing) as session:
            await session.run()
    assert asked == ["c1", "c2", "c3"]
    assert done == []


async def test_arguments_that_do_not_fit_are_answered_as_such_and_nobody_is_asked() -> None:
    asked: list[str] = []

    @tool
    def look(path: str) -> str:
        """Look."""
        return path

    model = ScriptedModel([Message.assistant(ToolUseBlock("c1", "look", {"path": 7})), "Fine."])
    session = Session(Agent(model=model, tools=[look]), approve=asking({"look": "no"}, asked))
    await session.run("go")
    assert asked == []
    assert "not valid" in session.messages[2].tool_results[0].text


async def test_a_call_that_may_run_begins_while_a_person_thinks_about_the_next() -> None:
    begun = asyncio.Event()

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        begun.set()
        return "seen"

    @tool(effect="read")
    def send() -> str:
        """Send."""
        return "sent"

    async def approve(use: ToolUseBlock, tool: Tool) -> Allow | Deny:
        if use.name == "send":
            await asyncio.wait_for(begun.wait(), 60)
        return Allow()

    model = ScriptedModel([calls("look", "send"), "Fine."])
    result = await Session(Agent(model=model, tools=[look, send]), approve=approve).run("go")
    assert [each.text for each in result.conversation[2].tool_results] == ["seen", "sent"]


@pytest.mark.parametrize("answer", [None, "no", 1, 0, "", [], object(), Deny, Allow, False, Deny("not today"), Deny()])
@pytest.mark.parametrize("kind", ["async", "sync", "returns an awaitable"])
async def test_a_call_runs_on_allow_or_true_and_on_nothing_else(
    agent: Agent, done: list[str], answer: object, kind: str
) -> None:
    session = Session(agent, approve=_answering(answer, kind))
    await session.run("go")
    assert done == []
    results = session.messages[2].tool_results
    assert all(result.is_error and " was not run: " in result.text for result in results)
    if isinstance(answer, Deny) and answer.reason:
        assert results[0].text == "look was not run: not today"


@pytest.mark.parametrize("answer", [True, Allow()])
@pytest.mark.parametrize("kind", ["async", "sync", "returns an awaitable"])
async def test_allow_and_true_let_a_call_run(agent: Agent, done: list[str], answer: object, kind: str) -> None:
    await Session(agent, approve=_answering(answer, kind)).run("go")
    assert done == ["look", "write", "look"]


async def test_a_typed_answer_is_not_asked_about(done: list[str]) -> None:
    @tool
    def write() -> None:
        """Write."""
        done.append("write")

    asked: list[str] = []

    def approve(use: ToolUseBlock, tool: Tool) -> bool:
        asked.append(use.name)
        return False

    model = ScriptedModel([call("write"), call("report_back", result=4)])
    assert await Agent(model, tools=[write]).ask("2+2?", int, approve=approve) == 4
    assert (asked, done) == (["write"], [])


async def test_a_sync_approver_may_block_without_holding_up_the_loop(agent: Agent, done: list[str]) -> None:
    free = threading.Event()

    def approve(use: ToolUseBlock, tool: Tool) -> bool:
        return free.wait(30)

    running = asyncio.ensure_future(Session(agent, approve=approve).run("go"))
    await asyncio.sleep(0)
    free.set()  # reached only because the loop runs while the approver waits
    assert (await running).status == "done"
    assert done == ["look", "write", "look"]


def _answering(answer: Any, kind: str) -> Any:
    async def later(use: ToolUseBlock, tool: Tool) -> Any:
        return answer

    if kind == "async":
        return later
    return (lambda use, tool: answer) if kind == "sync" else lambda use, tool: later(use, tool)
