"""The last turn of a model that must report: the reminder asks for the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import outrider
from outrider import Agent, Limits, Profile, tool
from outrider.prompts import prompt
from outrider.providers.base import Request
from outrider.runtime.events import TurnStarted
from outrider.runtime.structured_output import Report
from outrider.testing import ScriptedModel, Step, call
from outrider.tools.result import ToolResult
from tests.subagents.reporting import Team, offered, report_back, task
from tests.subagents.teams import bench_in, play, run_in
from tests.subagents.teams import task as send
from tests.watching import Watched

COUNT = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
ANSWER = "final answer"


@tool(effect="read")
def look(at: int) -> str:
    """Look somewhere."""
    return f"nothing at {at}"


def obedient(request: Request) -> Step:
    """Looks around until it is told to do something else, and then does what it is told, to the letter."""
    reminder = request.reminder or (request.messages[-1].text if len(request.messages) > 1 else "")
    if "Call the tool `report_back`" in reminder:
        return report_back(count=len(request.messages))
    if ANSWER in reminder:
        return "I have found nothing so far."
    return call("look", at=len(request.messages))


@pytest.mark.parametrize("turns", [1, 2, 3])
async def test_a_sub_agent_that_obeys_comes_back_with_its_report(turns: int) -> None:
    helper = Profile(name="Helper", description="Helps.", limits={"max_turns": turns})
    team = Team([task("Count.", output_schema=COUNT)], obedient, profiles=[helper], tools=[look])
    assert (await team.run()).status == "done"
    (finished,) = team.results
    assert not finished.result.is_error, finished.result.text
    assert finished.details["structured_output"] == {"count": 2 * turns - 1}
    assert (finished.details["status"], finished.details["turns"]) == ("done", turns)


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_a_model_that_reports_on_its_last_turn_returns_the_type(turns: int) -> None:
    model = ScriptedModel(obedient)
    answer = outrider.ask("Count.", COUNT, model=model, tools=[look], limits=Limits(max_turns=turns))
    assert answer == {"count": 2 * turns - 1}
    assert [bool(request.reminder) for request in model.requests] == [False] * (turns - 1) + [True]


@pytest.mark.parametrize("turns", [2, 3])
async def test_a_model_that_ended_with_text_is_reminded_of_the_report_on_its_last_turn(turns: int) -> None:
    """The run after the reminder has what is left of the turns."""

    def forgets(request: Request) -> Step:
        return "Nothing." if len(request.messages) == 1 else obedient(request)

    report = Report(COUNT)
    watched = Watched(forgets, [look], Limits(max_turns=turns))
    result = await watched.session.run("Count.", output=report)
    assert (result.status, report.data) == ("done", {"count": 3})


async def test_the_last_turn_with_a_report_does_not_ask_for_an_answer_in_words() -> None:
    report = Report(COUNT)
    watched = Watched([report_back(count=1)], [look], Limits(max_turns=1))
    await watched.session.run("Count.", output=report)
    (request,) = watched.model.requests
    assert request.reminder.startswith("This is your FINAL turn. ")
    assert "`report_back`" in request.reminder
    assert ANSWER not in request.reminder
    assert [event.last for event in watched.of(TurnStarted)] == [True]


async def test_the_last_turn_without_one_does() -> None:
    watched = Watched(["Nothing."], [look], Limits(max_turns=1))
    await watched.session.run("Count.")
    (request,) = watched.model.requests
    assert request.reminder.startswith("This is your FINAL turn. ")
    assert ANSWER in request.reminder
    assert "report_back" not in request.reminder


async def test_any_tool_can_set_the_reminder_of_the_last_turn() -> None:
    """Not a matter of a name: what the loop says comes from the tools."""

    @tool(final_turn="Hand in the sheet now.")
    def hand_in(sheet: str) -> ToolResult:
        """Hand in a sheet."""
        return ToolResult(f"handed in: {sheet}", final=True, details={"structured_output": sheet})

    def pupil(request: Request) -> Step:
        return call("hand_in", sheet="A") if "Hand in" in request.reminder else call("look", at=len(request.messages))

    watched = Watched(pupil, [look, hand_in], Limits(max_turns=3))
    result = await watched.session.run("Work.")
    assert (result.status, result.turns, result.text) == ("done", 3, "handed in: A")
    assert (result.structured_output, result.has_structured_output) == ("A", True)
    assert watched.model.requests[-1].reminder == f"{prompt('final_turn')} Hand in the sheet now."


# What a sub-agent is told of its answer


async def test_the_prompt_of_a_sub_agent_does_not_contradict_itself(folder: Path) -> None:
    sends: list[Any] = [send("a", "Explore"), send("b", "Explore", output_schema=COUNT)]
    model = play([sends, "Done."], {"a": ["Fine."], "b": [report_back(count=1)]})
    await run_in(bench_in(folder), model)
    children = {request.messages[0].text: request for request in model.requests if not offered(request, "Task")}
    assert "report_back" not in children["a"].system
    assert "`report_back`" in children["b"].system
    for request in children.values():
        assert "your last reply, or the report if you are asked for one" in request.system
        assert "last reply is all" not in request.system


def test_the_prompts_for_the_last_turn_fit_together() -> None:
    assert "answer in this reply" not in prompt("final_turn")
    assert ANSWER in prompt("final_answer")
    assert Report(COUNT).tool.final_turn == prompt("report_final_turn")
    assert Agent(model="demo", tools=[look]).system_prompt == ""
