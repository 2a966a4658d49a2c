"""Structured output of sub-agents: the document's goals, acceptance criteria, risks and open questions, in our API."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import outrider
from outrider import Agent, Limits, Log, Profile, Session, Tool, tool, with_subagents
from outrider.runtime.events import RunFinished, SubagentEvent, ToolFinished
from outrider.runtime.run import RunResult
from outrider.runtime.structured_output import TOOL, Report
from outrider.subagents.profile import built_in
from outrider.testing import ScriptedModel, Step, call, malformed_call
from outrider.tools.tool import RESERVED_NAMES
from tests.subagents.reporting import HELPER, Team, answers, last_answers, offered, report_back, task
from tests.subagents.teams import bench_in, play, results_of, run_in
from tests.watching import Watched, last_results

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"files": {"type": "array", "items": {"type": "string"}}, "count": {"type": "integer"}},
    "required": ["files", "count"],
    "additionalProperties": False,
}
DATA = {"files": ["login.py", "session.py"], "count": 2}
SOURCES = Path(outrider.__file__).parent


@tool(name="Write")
def write(name: str) -> str:
    """Write a file."""
    return f"{name} is written"


def parameters_of_task(**agent: Any) -> dict[str, Any]:
    """What the sender's model is shown of Task."""
    (sending,) = with_subagents(Agent(model="demo", **agent), [HELPER]).tools
    assert isinstance(sending, Tool)
    return sending.parameters


def ended(team: Team) -> list[RunFinished]:
    """How the runs of the sub-agents ended."""
    inner = [event.event for event in team.events if isinstance(event, SubagentEvent)]
    return [event for event in inner if isinstance(event, RunFinished)]


# The goals


@pytest.mark.parametrize("in_log", [False, True])
async def test_a_sender_gives_a_schema_and_gets_data_that_satisfies_it(tmp_path: Path, in_log: bool) -> None:
    """Goals 1 to 3, success metric 1: the whole way, once in memory and once in a log."""
    log = Log(tmp_path) if in_log else None
    team = Team([task("Which files?", output_schema=SCHEMA)], {"Which files?": [report_back(**DATA), "never"]}, log=log)
    assert (await team.run()).text == "Thank you."
    (request,) = team.requests("Which files?")
    assert offered(request) == SCHEMA
    (finished,) = team.results
    assert not finished.result.is_error
    assert json.loads(finished.result.text) == finished.details["structured_output"] == DATA
    if log:
        log.close()


async def test_without_a_schema_everything_is_as_it_was() -> None:
    """Goal 4, success metric 2."""
    team = Team([task("Which files?")], {"Which files?": ["Two of them."]})
    await team.run()
    (request,) = team.requests("Which files?")
    assert offered(request) is None
    assert "report_back" not in request.system
    (finished,) = team.results
    assert finished.result.text == "Two of them."
    assert "structured_output" not in finished.details
    assert [(event.structured_output, event.has_structured_output) for event in ended(team)] == [(None, False)]


# 1 Data model


@pytest.mark.parametrize("more", [{}, {"output_schema": None}])
async def test_a_schema_is_an_object_or_absent(more: dict[str, None]) -> None:
    """1.1: `dict | None`, None by default."""
    assert parameters_of_task()["properties"]["output_schema"]["type"] == "object"
    assert "output_schema" not in parameters_of_task()["required"]
    team = Team([task("Which?", **more)], {"Which?": ["Two."]})
    await team.run()
    assert [(each.result.text, each.result.is_error) for each in team.results] == [("Two.", False)]


async def test_an_empty_schema_is_a_schema() -> None:
    """1.1 and 4.3: the document's `if state.output_schema` would pass over it."""
    team = Team([task("Which?", output_schema={})], {"Which?": [report_back(anything=1)]})
    await team.run()
    assert team.results[0].details["structured_output"] == {"anything": 1}


async def test_a_profile_may_support_no_structured_output() -> None:
    """1.2: the document's profiles do so unless they name an argument; ours do unless they say `schemas: false`."""
    assert all(profile.schemas for profile in built_in())
    writer = Profile(name="Writer", description="Writes prose.", schemas=False)
    team = Team([task("Which?", subagent_type="Writer", output_schema=SCHEMA)], {}, profiles=[writer])
    await team.run()
    shown = offered(team.model.requests[0], "Task")
    assert shown is not None
    assert "output_schema" not in shown["properties"]
    assert team.results[0].result.is_error


def test_a_result_has_no_structured_output_by_default() -> None:
    """1.3."""
    defaults = {field.name: field.default for field in msgspec.structs.fields(RunResult)}
    assert (defaults["structured_output"], defaults["has_structured_output"]) == (None, False)


async def test_a_result_has_it_when_the_report_was_given() -> None:
    """1.3."""
    report = Report(SCHEMA)
    result = await Watched([report_back(**DATA)], []).session.run("Which?", output=report)
    assert (result.structured_output, result.has_structured_output) == (DATA, True)


# 2 The tool


def test_the_tool_has_the_schema_as_its_parameters() -> None:
    """2.1: for_schema and schema()."""
    report = Report(SCHEMA)
    assert (report.tool.name, report.tool.parameters) == ("report_back", SCHEMA)
    assert "Report the result of the task" in report.tool.description


def test_each_schema_makes_a_tool_of_its_own() -> None:
    """2.2."""
    one, other = Report(SCHEMA), Report({"type": "object", "properties": {"x": {"type": "integer"}}})
    assert one.tool.parameters == SCHEMA
    assert list(other.tool.parameters["properties"]) == ["x"]


async def test_calling_it_succeeds() -> None:
    """2.1: call(). The document answers "Result reported successfully."; ours is the data, so that the log has it."""
    report = Report(SCHEMA)
    watched = Watched([report_back(**DATA)], [report.tool])
    await watched.session.run("Which?")
    ((text, is_error),) = last_results(watched.session)
    assert (json.loads(text), is_error) == (DATA, False)


def test_its_name_is_a_constant_and_reserved() -> None:
    """2.3: whoever needs the name imports it; nobody else may have it."""
    assert TOOL == "report_back"
    assert TOOL in RESERVED_NAMES
    named = {
        path.relative_to(SOURCES).as_posix() for path in SOURCES.rglob("*.py") if '"report_back"' in path.read_text()
    }
    assert named == {"runtime/structured_output.py", "tools/tool.py"}, "the loop does not know it"


# 3 The loop


async def test_the_arguments_are_kept_and_the_calls_beside_it_run() -> None:
    """3.1, 3.2, open question 1: the history stays complete, and then the task ends."""
    reply: Step = [call("Write", name="a"), report_back(**DATA), call("Write", name="b")]
    team = Team([task("Which?", output_schema=SCHEMA)], {"Which?": [reply, "never"]}, tools=[write])
    await team.run()
    inner = [event.event for event in team.events if isinstance(event, SubagentEvent)]
    names = [event.name for event in inner if isinstance(event, ToolFinished) and not event.result.is_error]
    assert sorted(names) == ["Write", "Write", "report_back"]
    assert len(team.requests("Which?")) == 1
    assert team.results[0].details["structured_output"] == DATA


async def test_it_ends_the_task() -> None:
    """3.3, 3.4: has_report_back is a property of how the run ended."""
    report = Report(SCHEMA)
    watched = Watched([report_back(**DATA), "never"], [report.tool])
    result = await watched.session.run("Which?")
    assert (result.status, result.turns, result.has_structured_output) == ("done", 1, True)


async def test_the_result_of_the_task_is_the_json_of_the_data_and_the_event_has_both() -> None:
    """3.5, open question 3: structured_output on the event at the end, for those who watch."""
    team = Team([task("Which?", output_schema=SCHEMA)], {"Which?": [report_back(**DATA)]})
    await team.run()
    (event,) = ended(team)
    assert (event.structured_output, json.loads(event.text)) == (DATA, DATA)
    assert json.loads(team.results[0].result.text) == DATA


async def test_without_a_report_the_result_is_the_last_message() -> None:
    """3.5."""
    watched = Watched(["Two of them."], [])
    result = await watched.session.run("Which?")
    assert (result.text, result.structured_output) == ("Two of them.", None)


async def test_the_data_is_there_after_a_reload(tmp_path: Path) -> None:
    """3.5: what a UI shows, it can show again."""
    report = Report(SCHEMA)
    with Log(tmp_path) as log:
        with Session.open(log, agent=Agent(model=ScriptedModel([report_back(**DATA)]), tools=[report.tool])) as session:
            await session.run("Which?")
        with Session.open(log, session.id, Agent(model=ScriptedModel([]))) as again:
            assert (await again.run()).structured_output == DATA
        (answer,) = answers(log, session.id)
        assert answer.details["structured_output"] == DATA


# 4 The tool is given to those who are to report


async def test_the_tool_comes_beside_those_of_the_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """4.1 to 4.3, the data flow: tools: [Bash, Read, Edit, Write, report_back]."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OUTRIDER_CONFIG", str(tmp_path / "config.toml"))
    send = task("Which?", subagent_type="General", output_schema=SCHEMA)
    model = play([send, "Done."], {"Which?": [report_back(**DATA)]})
    (tmp_path / "project").mkdir()
    session = await run_in(bench_in(tmp_path / "project", tools=["Bash", "Read", "Edit", "Write", "Task"]), model)
    assert sorted(each.name for each in model.requests[1].tools) == ["Bash", "Edit", "Read", "Write", "report_back"]
    assert "report_back" not in [each.name for each in model.requests[0].tools], "its sender does not have it"
    assert json.loads(results_of(session)[0].text) == DATA


# 5 Task


def test_task_has_the_parameter_and_says_what_it_does() -> None:
    """5.1, 5.2."""
    parameters = parameters_of_task()
    assert {"description", "prompt"} <= set(parameters["properties"])
    assert parameters["additionalProperties"] is False
    described = parameters["properties"]["output_schema"]
    assert described["type"] == "object"
    assert "A JSON Schema" in described["description"]
    (sending,) = with_subagents(Agent(model="demo"), [HELPER]).tools
    assert isinstance(sending, Tool)
    assert "JSON Schema" in sending.description


@pytest.mark.parametrize("name", ["Explore", "Plan", "Bash", "General"])
def test_every_built_in_profile_takes_a_schema(name: str) -> None:
    """5.3."""
    assert next(profile for profile in built_in() if profile.name == name).schemas


# Risks


async def test_a_hundred_at_once_do_not_see_each_other_s_tool() -> None:
    """Risk 1: there is no registry to share; each session has tools of its own."""

    def schema(number: int) -> dict[str, Any]:
        return {"type": "object", "properties": {f"n{number}": {"const": number}}, "required": [f"n{number}"]}

    def child(request: Any) -> Step:
        number = int(request.messages[0].text)
        assert offered(request) == schema(number)
        return report_back(**{f"n{number}": number})

    numbers = range(100)
    team = Team([task(str(n), output_schema=schema(n)) for n in numbers], child, at_once=50)
    await team.run()
    assert [each.details["structured_output"] for each in team.results] == [{f"n{n}": n} for n in numbers]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (report_back(files="login.py", count="two", more=1), ["files: ", "count: ", "more"]),
        (report_back(), ['"files" is a required property', '"count" is a required property']),
        (malformed_call("report_back", '{"files": ["login.py"'), ["not a JSON object"]),
    ],
)
async def test_what_does_not_satisfy_the_schema_is_an_error_and_the_child_goes_on(wrong: Step, said: list[str]) -> None:
    """Risk 2. The document's 3.2 would end the task before the data is checked."""
    team = Team([task("Which?", output_schema=SCHEMA)], {"Which?": [wrong, report_back(**DATA)]})
    await team.run()
    _, second = team.requests("Which?")
    ((text, is_error),) = last_answers(second.messages[-1])
    assert is_error
    for each in said:
        assert each in text
    assert team.results[0].details["structured_output"] == DATA


async def test_of_several_reports_in_one_turn_the_first_counts() -> None:
    """Risk 3: the later ones are answered with an error."""
    other = DATA | {"count": 99}
    report = Report(SCHEMA)
    watched = Watched([[report_back(**DATA), report_back(**other)]], [])
    result = await watched.session.run("Which?", output=report)
    assert result.structured_output == DATA
    assert [is_error for _, is_error in last_results(watched.session)] == [False, True]


async def test_a_child_that_forgets_it_is_reminded_and_then_has_failed() -> None:
    """Beyond the document, which does not say what happens to a child that ends without a report."""
    team = Team([task("Which?", output_schema=SCHEMA)], {"Which?": ["Two.", "Two, as I said."]})
    await team.run()
    assert team.results[0].result.is_error
    assert "Two, as I said." in team.results[0].result.text


# Open questions


async def test_the_system_prompt_of_the_child_names_the_tool() -> None:
    """Open question 2."""
    team = Team([task("Which?", output_schema=SCHEMA)], {"Which?": [report_back(**DATA)]})
    await team.run()
    (request,) = team.requests("Which?")
    assert "call the tool `report_back` once" in request.system


@pytest.mark.parametrize("turns", [1, 2, 3])
async def test_so_does_what_it_is_told_on_its_last_turn(turns: int) -> None:
    """Open question 2: a child that does as it is told comes back with its report, however few its turns are."""

    def child(request: Any) -> Step:
        return (
            report_back(**DATA)
            if "`report_back`" in request.reminder
            else call("Write", name=str(len(request.messages)))
        )

    helper = Profile(name="Helper", description="Helps.", limits={"max_turns": turns})
    team = Team([task("Which?", output_schema=SCHEMA)], child, profiles=[helper], tools=[write])
    await team.run()
    assert team.results[0].details.get("structured_output") == DATA


async def test_a_typed_answer_is_the_same_for_python() -> None:
    """Goal 1, for callers that are programs: a type instead of a schema."""

    class Files(msgspec.Struct):
        files: list[str]
        count: int

    agent = Agent(model=ScriptedModel([report_back(**DATA)]), limits=Limits(max_turns=1))
    assert await agent.ask("Which?", Files) == Files(["login.py", "session.py"], 2)


async def test_a_cancelled_child_has_no_report(tmp_path: Path) -> None:
    """Success metric 1: what did not come is not made up."""
    waiting = asyncio.Event()

    @tool(name="Write")
    async def dawdle(name: str) -> str:
        """Take long."""
        waiting.set()
        await asyncio.sleep(60)
        return name

    team = Team([task("Which?", output_schema=SCHEMA)], {"Which?": [call("Write", name="a")]}, tools=[dawdle])
    running = asyncio.ensure_future(team.run())
    await waiting.wait()
    team.session.cancel()
    assert (await running).status == "cancelled"
    assert [event.has_structured_output for event in ended(team)] == [False]
