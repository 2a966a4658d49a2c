"""The calls of a turn, run outside a session: the same results as in one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from outrider import Agent, Allow, Attachment, Deny, Limits, ToolContext, ToolResultBlock, Turn, run, think, tool
from outrider.testing import ScriptedModel, call, malformed_call


def double(number: int) -> int:
    "Double a number."
    return 2 * number


def broken() -> str:
    "Fail."
    raise ZeroDivisionError("by hand")


def talk() -> str:
    "Talk."
    return "bla " * 500


@tool(timeout=0.05, effect="read")
async def slow() -> None:
    "Wait."
    await asyncio.sleep(60)


def turn_with(*calls: Any, tools: list[Any]) -> Turn:
    return think("Go.", tools=tools, model=ScriptedModel([list(calls)]))


def weekday(day: date) -> str:
    "Name the day of the week."
    return f"{day:%A}"


def test_the_results_go_back_into_the_conversation() -> None:
    def said(request: Any) -> str:
        return " and ".join(result.text for result in request.messages[-1].tool_results)

    model = ScriptedModel([[call("double", number=4), call("weekday", day="2026-11-17")], said])
    tools = [double, weekday]
    turn = think("Go.", tools=tools, model=model)
    results = turn.run_calls(tools)
    last = think("", conversation=turn.conversation, tool_results=results, tools=tools, model=model)
    assert last.content == "8 and Tuesday"
    assert (turn.tool_calls[0].id, len(turn.conversation)) == (results[0].tool_use_id, 2)


@pytest.mark.parametrize(
    ("wanted", "tools"),
    [
        (call("double", number="four"), [double]),
        (call("double"), [double]),
        (call("duoble", number=4), [double]),
        (malformed_call("double", '{"number": '), [double]),
        (call("broken"), [broken]),
        (call("slow"), [slow]),
        (call("double", number=4), []),
    ],
)
def test_failures_read_as_in_a_session(wanted: Any, tools: list[Callable[..., Any]]) -> None:
    inside = run("Go.", tools=tools, model=ScriptedModel([wanted, "Done."])).conversation[2].tool_results
    outside = turn_with(wanted, tools=tools).run_calls(tools)
    assert outside == list(inside)
    assert outside[0].is_error


def test_tools_run_side_by_side_and_get_their_deps_and_folder(tmp_path: Path) -> None:
    both = threading.Barrier(2, timeout=30)

    def meet(context: ToolContext[str]) -> str:
        "Meet."
        both.wait()
        return f"{context.deps} in {context.cwd.name}"

    turn = turn_with(call("meet"), call("meet"), tools=[meet])
    results = turn.run_calls([meet], deps="Ann", cwd=tmp_path)
    assert [each.text for each in results] == [f"Ann in {tmp_path.name}"] * 2


def test_an_approver_and_limits_hold() -> None:
    turn = turn_with(call("double", number=4), tools=[double])
    [denied] = turn.run_calls([double], approve=lambda use, tool: Deny("not today"))
    assert denied.text == "double was not run: not today"
    [cut] = turn_with(call("talk"), tools=[talk]).run_calls([talk], limits=Limits(result_characters=100))
    assert "characters left out here" in cut.text


def test_files_of_results_are_found_by_the_next_request() -> None:
    def draw() -> Attachment:
        "Draw."
        return Attachment(b"\x89PNG\r\n\x1a\n", "image/png", "a.png")

    def bytes_of(request: Any) -> str:
        [file] = request.messages[-1].tool_results[0].attachments
        return str(len(request.store.read(file)))

    model = ScriptedModel([call("draw"), bytes_of])
    turn = think("Go.", tools=[draw], model=model)
    last = think("", conversation=turn.conversation, tool_results=turn.run_calls([draw]), model=model)
    assert last.content == "8"


def test_a_turn_without_calls_has_no_results() -> None:
    results: list[ToolResultBlock] = turn_with("Nothing to do.", tools=[double]).run_calls([double])
    assert results == []


async def test_in_an_event_loop_the_calls_are_refused_and_the_async_form_is_named() -> None:
    turn = await Agent(ScriptedModel([call("double", number=4)]), tools=[double]).think("Go.")
    with pytest.raises(RuntimeError, match=r"write await agent\.act\(turn\)"):
        turn.run_calls([double])


async def test_an_agent_runs_the_calls_of_a_turn_in_an_event_loop(tmp_path: Path) -> None:
    @tool(effect="read")
    def shelf(context: ToolContext[list[str]]) -> str:
        "List what is on the shelf."
        return f"{context.deps} in {context.cwd.name}"

    model = ScriptedModel([call("shelf"), lambda request: request.messages[-1].tool_results[0].text])
    agent = Agent(model, tools=[shelf], deps_type=list)
    turn = await agent.think("What is there?", deps=["cup"])
    results = await agent.act(turn, deps=["cup"], cwd=tmp_path, approve=lambda *_: Allow())
    last = await agent.think(turn.conversation, tool_results=results, deps=["cup"])
    assert last.text == f"['cup'] in {tmp_path.name}"
    (denied,) = await agent.act(turn, deps=["cup"], approve=lambda *_: Deny("not now"))
    assert (denied.is_error, "not now" in denied.text) == (True, True)
    assert await agent.act(last, deps=["cup"]) == []
