"""The data of a report is in results, in events and in the session after a reload.

How a run comes to its report is in test_structured_output.py.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outrider import Agent, Limits, Log, RunError, Session, tool
from outrider.runtime.events import Event, RunFinished, SubagentEvent, ToolFinished
from outrider.runtime.structured_output import Report
from outrider.testing import ScriptedModel, Step, call
from outrider.tools.result import ToolResult
from tests.subagents.reporting import Team, answers, report_back, task
from tests.watching import Watched, last_results

VALUES = [
    pytest.param({}, {"who": "Ada", "age": 36}, id="object"),
    pytest.param({"type": "array"}, [1, [2]], id="array"),
    pytest.param({"type": "boolean"}, False, id="false"),
    pytest.param({"type": "string"}, "", id="blank"),
    pytest.param({"type": "null"}, None, id="null"),
]
LONG = {"who": "x" * 60_000, "age": 36}


def reporting(schema: Any, data: Any) -> tuple[Report, Step]:
    """A report, and the call that gives it."""
    report = Report(schema)
    wrapped = "result" in report.tool.parameters.get("properties", {})
    return report, report_back(**({"result": data} if wrapped else data))


def data_of(ended: Any) -> tuple[Any, bool]:
    return ended.structured_output, ended.has_structured_output


@pytest.mark.parametrize(("schema", "data"), VALUES)
async def test_a_run_that_ends_with_a_report_has_its_data(schema: Any, data: Any) -> None:
    report, step = reporting(schema, data)
    watched = Watched([step], [report.tool])
    result = await watched.session.run("Who?")
    (finished,) = watched.of(RunFinished)
    assert data_of(result) == data_of(finished) == (data, True)
    again = msgspec.json.decode(msgspec.json.encode(finished), type=Event)
    assert again == finished, "also for those who read the events elsewhere"


@pytest.mark.parametrize(("schema", "data"), VALUES)
async def test_so_has_a_run_that_had_to_be_reminded(schema: Any, data: Any) -> None:
    report, step = reporting(schema, data)
    watched = Watched(["Let me think.", step], [])
    result = await watched.session.run("Who?", output=report)
    assert data_of(result) == (data, True)
    assert [data_of(each) for each in watched.of(RunFinished)] == [(None, False), (data, True)]


async def test_without_a_report_there_is_none() -> None:
    watched = Watched(["null"])
    result = await watched.session.run("Who?")
    assert data_of(result) == data_of(watched.of(RunFinished)[0]) == (None, False)
    encoded = json.loads(msgspec.json.encode(watched.of(RunFinished)[0]))
    assert not [name for name in encoded if "structured" in name]


@pytest.mark.parametrize("turns", [1, 5])
async def test_the_data_of_another_final_tool_is_not_taken_for_the_report(turns: int) -> None:
    @tool
    def finish() -> ToolResult:
        """End it."""
        return ToolResult("over", final=True, details={"structured_output": {"who": "Eve"}})

    report = Report({"type": "object", "required": ["who"]})
    watched = Watched([call("finish"), "No."], [finish], Limits(max_turns=turns))
    result = await watched.session.run("Who?", output=report)
    assert result.status != "done"
    assert data_of(result) == (None, False)
    assert data_of(watched.of(RunFinished)[0]) == ({"who": "Eve"}, True), "of that run it was the data"


@pytest.mark.parametrize(("schema", "data"), VALUES)
async def test_the_data_is_there_after_a_reload(tmp_path: Path, schema: Any, data: Any) -> None:
    report, step = reporting(schema, data)
    with Log(tmp_path) as log:
        with Session.open(log, agent=Agent(model=ScriptedModel([step]), tools=[report.tool])) as session:
            first = await session.run("Who?")
        events: list[Event] = []
        with Session.open(log, session.id, Agent(model=ScriptedModel([])), observer=events.append) as again:
            second = await again.run()
    assert data_of(second) == data_of(first) == (data, True)
    assert second.turns == 0
    assert data_of(events[-1]) == (data, True)


async def test_after_more_was_said_it_is_gone(tmp_path: Path) -> None:
    report, step = reporting({}, {"who": "Ada"})
    with (
        Log(tmp_path) as log,
        Session.open(log, agent=Agent(model=ScriptedModel([step, "Yes."]), tools=[report.tool])) as session,
    ):
        await session.run("Who?")
        assert data_of(await session.run("Sure?")) == (None, False)


async def test_ask_shows_it_to_observers_and_keeps_it_in_its_error() -> None:
    events: list[Event] = []
    agent = Agent(model=ScriptedModel([call("report_back", result=7)]))
    assert await agent.ask("How many?", int, observer=events.append) == 7
    assert data_of(events[-1]) == (7, True)
    with pytest.raises(RunError) as missing:
        await Agent(model=ScriptedModel(["No.", "No."])).ask("How many?", int)
    assert missing.value.result is not None
    assert data_of(missing.value.result) == (None, False)


@pytest.mark.parametrize(("schema", "data"), VALUES)
async def test_a_sender_sees_it_at_the_end_of_its_sub_agent(schema: Any, data: Any) -> None:
    _, step = reporting(schema, data)
    team = Team([task("Who?", output_schema=schema)], {"Who?": [step]})
    result = await team.run()
    inner = [event.event for event in team.events if isinstance(event, SubagentEvent)]
    assert [data_of(event) for event in inner if isinstance(event, RunFinished)] == [(data, True)]
    assert data_of(result) == (None, False), "the sender itself was asked for no report"


# Long reports


def check_shortened(text: str, limit: int, reference: str) -> None:
    """It is JSON within the limit, says that it is not all, and where that is."""
    assert len(text) <= limit
    decoded = json.loads(text)
    assert f"{len(json.dumps(LONG, separators=(',', ':'))):,} characters" in decoded["shortened"]
    assert f"attachment:{reference}" in decoded["shortened"]
    assert decoded["data"]["age"] == LONG["age"]


async def test_a_long_report_is_valid_json_for_its_sender_and_whole_as_data(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        team = Team([task("Who?", output_schema={})], {"Who?": [report_back(**LONG)]}, log=log)
        await team.run()
        (finished,) = team.results
        assert finished.result.whole is not None
        check_shortened(finished.result.text, 10_000, finished.result.whole.sha256)
        assert finished.details["structured_output"] == LONG
        assert finished.result.whole.mime_type == "application/json"
        assert json.loads(team.session.store.read(finished.result.whole)) == LONG
        (own,) = answers(log, finished.details["session"])
        assert own.result.whole is not None
        check_shortened(own.result.text, 50_000, own.result.whole.sha256)
        inner = [event.event for event in team.events if isinstance(event, SubagentEvent)]
        (ended,) = [event for event in inner if isinstance(event, RunFinished)]
        assert data_of(ended) == (LONG, True)
        json.loads(ended.text)


async def test_a_long_report_is_whole_as_the_text_of_an_answer() -> None:
    report, step = reporting({}, LONG)
    watched = Watched([step], [])
    result = await watched.session.run("Who?", output=report)
    assert json.loads(result.text) == LONG
    block = watched.session.messages[-1].tool_results[0]
    assert block.whole is not None
    check_shortened(last_results(watched.session)[0][0], 50_000, block.whole.sha256)
    assert json.loads(watched.session.store.read(block.whole)) == LONG


async def test_any_tool_may_say_that_its_text_is_json() -> None:
    @tool
    def table() -> ToolResult:
        """Make a table."""
        return ToolResult(json.dumps([{"row": number} for number in range(10_000)]), is_json=True)

    @tool
    def broken() -> ToolResult:
        """Claim to give JSON."""
        return ToolResult("[" * 60_000, is_json=True)

    watched = Watched([[call("table"), call("broken")], "Fine."], [table, broken])
    await watched.session.run("Go.")
    (text, _), (other, _) = last_results(watched.session)
    assert json.loads(text)["data"][0] == {"row": 0}
    assert len(text) <= 50_000
    assert other.startswith("[[[")
    assert "[10,000 of 60,000 characters left out" in other
    assert all(event.result.whole for event in watched.of(ToolFinished))


async def test_a_report_counts_although_the_call_beside_it_runs_out_of_time() -> None:
    """The end of the run, live and after a reload, has the data that was accepted."""

    async def slow() -> str:
        """Take long."""
        await asyncio.sleep(60)
        return "late"

    report = Report({"type": "object", "properties": {"n": {"type": "integer"}}})
    model = ScriptedModel([[call("report_back", n=1), call("slow")]])
    seen: list[Event] = []
    agent = Agent(model, tools=[slow, report.tool], limits=Limits(max_seconds=0.2))
    result = await Session(agent, observer=seen.append).run("go")
    assert (result.status, result.structured_output, result.text) == ("done", {"n": 1}, '{"n":1}')
    ended = seen[-1]
    assert isinstance(ended, RunFinished)
    assert (ended.status, ended.structured_output, ended.has_structured_output) == ("done", {"n": 1}, True)
