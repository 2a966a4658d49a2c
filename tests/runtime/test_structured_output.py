"""Reports: data that satisfies a schema, and how a run ends with one. For the data itself: test_report_data.py."""

from __future__ import annotations

import asyncio
import datetime
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.conversation.messages import Message, ToolUseBlock
from outrider.conversation.usage import Usage
from outrider.errors import ProviderError, SchemaError, ToolDefinitionError
from outrider.log.entries import MessageEntry, RunStarted
from outrider.log.log import Log
from outrider.prompts import prompt
from outrider.runtime.agent import Agent
from outrider.runtime.events import RunFinished, ToolFinished
from outrider.runtime.limits import Limits
from outrider.runtime.run import RunResult
from outrider.runtime.session import Session
from outrider.runtime.structured_output import MISSING, NO_TURNS_LEFT, TOOL, Report
from outrider.subagents import with_subagents
from outrider.sync import ask, run
from outrider.testing import Delay, ScriptedModel, Step, call, malformed_call
from outrider.tools.result import ToolResult
from outrider.tools.tool import Effect, tool
from tests.watching import Watched, last_results

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
}
ADA = {"name": "Ada", "age": 36}
NUMBERS = {"type": "array", "items": {"type": "integer"}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


class Point(msgspec.Struct):
    x: int
    y: int = 0


class Visit(msgspec.Struct):
    day: datetime.date


class Node(msgspec.Struct):
    name: str
    children: list[Node] = []


def report_back(**data: Any) -> Any:
    return call("report_back", **data)


async def reported(
    schema: Any, *steps: Step, limits: Limits | None = None, tools: Any = ()
) -> tuple[Watched, Report, RunResult]:
    """A run with these replies, checked for what always holds."""
    report = Report(schema)
    watched = Watched(steps, [*tools], limits)
    result = await watched.session.run("Who is it?", output=report)
    watched.check()
    return watched, report, result


# What the model is offered


@pytest.mark.parametrize("schema", [{}, True, {"description": "whatever"}, {"type": "OBJECT"}, {"x-vendor": 1}])
def test_a_schema_that_says_nothing_takes_any_object_as_it_is(schema: Any) -> None:
    report = Report(schema)
    assert report.tool.parameters["type"] == "object"
    assert "properties" not in report.tool.parameters
    assert (report.has_data, report.data, report.value, report.text) == (False, None, None, "")


@pytest.mark.parametrize(
    "schema",
    [
        PERSON,
        {"properties": {"name": {}}, "anyOf": [{"required": ["name"]}]},
        {"required": ["name"]},
        {"$ref": "#/$defs/P", "$defs": {"P": PERSON}},
        Point,
        Node,
    ],
)
def test_an_object_is_offered_as_it_is(schema: Any) -> None:
    parameters = Report(schema).tool.parameters
    assert parameters["type"] == "object"
    assert "result" not in parameters.get("properties", {})
    assert "$ref" not in parameters


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (NUMBERS, [1, 2], ["x"]),
        ({"type": "ARRAY", "items": {"type": "INTEGER"}}, [], 1),
        ({"type": ["integer", "null"]}, None, "x"),
        ({"enum": ["yes", "no"]}, "no", "maybe"),
        ({"const": 3}, 3, 4),
        ({"minLength": 2}, "ab", "a"),
        ({"anyOf": [PERSON, {"type": "null"}]}, None, {"name": 1}),
        ({"not": {"type": "string"}}, 5, "x"),
        ({"type": "array", "items": {"$ref": "#/$defs/P"}, "$defs": {"P": PERSON}}, [ADA], [{}]),
        ({"type": "array", "items": {"$ref": "#/definitions/P"}, "definitions": {"P": PERSON}}, [ADA], [{}]),
        ({"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#"}}]}, [1, [2, [3]]], [1, ["x"]]),
        ({"type": "array", "prefixItems": [{"type": "string"}], "items": {"$ref": "#/prefixItems/0"}}, ["a"], [1]),
        (
            {"$id": "urn:x", "type": "array", "items": {"$ref": "urn:x#/$defs/N"}, "$defs": {"N": {"const": 1}}},
            [1],
            [2],
        ),
        ({"$id": "http://a.b/c", "type": "array", "items": {"$ref": "http://a.b/c"}}, [[]], [1]),
        ({"type": "array", "items": {"$ref": "#n"}, "$defs": {"N": {"$anchor": "n", "const": 1}}}, [1], [2]),
        (
            {"$schema": "http://json-schema.org/draft-07/schema#", "type": "array", "items": [{"type": "string"}]},
            ["a", 1],
            [1],
        ),
        (int, 3, "x"),
        (list[Point], [{"x": 1}], [{"y": 1}]),
        (list[Node], [{"name": "a", "children": [{"name": "b"}]}], [{"children": []}]),
        (str | None, None, 4),
    ],
)
async def test_what_is_no_object_is_wrapped_in_one_and_comes_back_unwrapped(schema: Any, good: Any, bad: Any) -> None:
    assert list(Report(schema).tool.parameters["properties"]) == ["result"]
    watched, report, _ = await reported(schema, report_back(result=bad), report_back(result=good))
    assert watched.session.messages[2].tool_results[0].is_error
    assert (report.has_data, report.data) == (True, good)
    assert json.loads(watched.of(ToolFinished)[-1].result.text) == good


@pytest.mark.parametrize(
    "schema",
    [
        False,
        {"type": "strnig"},
        {"$ref": "http://example.com/schema.json"},
        {"properties": {"a": {"$ref": "https://example.com/a"}}},
        {"type": "array", "items": {"$ref": "#/$defs/missing"}},
        {"properties": {"a": {"pattern": "("}}},
        {"description": "x" * 10_000_000},
        "a string",
        [PERSON],
        object(),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_with_a_reason(schema: Any) -> None:
    with pytest.raises(SchemaError) as refused:
        Report(schema)
    assert len(str(refused.value)) > 10


def test_a_schema_of_a_thousand_levels_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(1_000):
        schema = {"properties": {"a": schema}}
    with pytest.raises(SchemaError, match="levels deep"):
        Report(schema)


def test_the_prompts_name_the_tool() -> None:
    report = Report({})
    assert report.tool.name == "report_back"
    assert "`report_back`" in report.tool.guidance
    assert "`report_back`" in prompt("report_reminder")
    assert report.tool.effect == "read"


def report_back_of_the_user(who: str) -> str:
    """A tool that has the name of ours."""
    return who


report_back_of_the_user.__name__ = TOOL


@pytest.mark.parametrize(
    "use",
    [
        lambda: Agent(model="demo", tools=[report_back_of_the_user]),
        lambda: with_subagents(Agent(model="demo", tools=[report_back_of_the_user])),
        lambda: ask("Who?", str, model="demo", tools=[report_back_of_the_user]),
        lambda: run("Who?", tools=[report_back_of_the_user], model="demo"),
        lambda: tool(name=TOOL)(lambda: None),
    ],
    ids=["Agent", "with_subagents", "ask", "run", "tool"],
)
def test_a_tool_of_the_user_s_own_cannot_have_its_name(use: Any) -> None:
    with pytest.raises(ToolDefinitionError, match=r"'report_back' is a reserved name: .*@tool\(name=…\)"):
        use()


def test_our_own_may_be_given_to_any_agent() -> None:
    report = Report(PERSON)
    agent = Agent(model="demo", tools=[report.tool])
    assert [each.name for each in msgspec.structs.replace(agent, name="other").tools] == [TOOL]


def test_the_schema_that_is_given_is_not_changed() -> None:
    schema: dict[str, Any] = {"type": "ARRAY", "items": {"$ref": "#"}}
    Report(schema)
    assert schema == {"type": "ARRAY", "items": {"$ref": "#"}}


# The report


async def test_a_valid_report_ends_the_run() -> None:
    watched, report, result = await reported(PERSON, ["Here it is.", report_back(**ADA)], "never asked")
    assert (result.status, result.turns, result.error) == ("done", 1, "")
    assert report.data == json.loads(result.text) == json.loads(last_results(watched.session)[0][0]) == ADA
    assert json.loads(watched.of(ToolFinished)[0].result.text) == ADA
    assert json.loads(watched.of(RunFinished)[0].text) == ADA


@given(JSON)
def test_the_json_of_the_result_is_the_data_whatever_it_is(value: Any) -> None:
    async def main() -> None:
        watched, report, result = await reported({"type": "object", "properties": {"x": {}}}, report_back(x=value))
        assert result.status == "done"
        assert json.loads(result.text) == report.data == {"x": value}
        assert json.loads(last_results(watched.session)[0][0]) == report.data

    asyncio.run(main())


async def test_names_that_a_function_uses_for_itself_are_names_like_others() -> None:
    data = {"self": 1, "arguments": 2, "report": 3, "result": 4, "weird name": 5, "": 6}
    _, report, _ = await reported({}, ToolUseBlock("", "report_back", data))
    assert report.data == data


async def test_an_invalid_report_is_answered_with_every_violation_and_the_run_goes_on() -> None:
    watched, report, _ = await reported(PERSON, report_back(age=-1, name=3), report_back(**ADA))
    (refused,) = watched.session.messages[2].tool_results
    assert refused.is_error
    assert "name: " in refused.text
    assert "age: " in refused.text
    assert report.data == ADA


@pytest.mark.parametrize("arguments", ['{"name": "Ada", "age"', "[1]", "", "null"])
async def test_arguments_that_are_no_json_object_are_answered_and_the_run_goes_on(arguments: str) -> None:
    watched, report, _ = await reported(PERSON, malformed_call("report_back", arguments), report_back(**ADA))
    assert watched.session.messages[2].tool_results[0].is_error
    assert report.data == ADA


async def test_numbers_that_json_does_not_have_are_refused() -> None:
    watched, report, _ = await reported({}, report_back(x=float("inf")), report_back(x=10**40))
    assert "JSON does not have" in watched.session.messages[2].tool_results[0].text
    assert report.data == {"x": 10**40}


async def test_of_two_reports_in_one_reply_the_first_valid_one_counts() -> None:
    reply = [report_back(name="?"), report_back(**ADA), report_back(name="Eve", age=1)]
    watched, report, _ = await reported(PERSON, reply)
    assert [is_error for _, is_error in last_results(watched.session)] == [True, False, True]
    assert "has its report already" in last_results(watched.session)[2][0]
    assert report.data == ADA


async def test_calls_beside_the_report_are_carried_out_and_answered() -> None:
    written: list[str] = []

    @tool
    async def write(text: str) -> str:
        await asyncio.sleep(0.01)
        written.append(text)
        return "written"

    watched, report, result = await reported(
        PERSON, [call("write", text="a"), report_back(**ADA), call("write", text="b")], tools=[write]
    )
    assert written == ["a", "b"]
    assert [text for text, _ in last_results(watched.session)] == ["written", report.text, "written"]
    assert result.status == "done"


async def test_two_reports_at_once_know_nothing_of_each_other() -> None:
    delayed = [Delay(0.02, report_back(**ADA)), Delay(0.01, report_back(result=[1, 2]))]
    (_, one, _), (_, other, _) = await asyncio.gather(reported(PERSON, delayed[0]), reported(NUMBERS, delayed[1]))
    assert (one.data, other.data) == (ADA, [1, 2])


async def test_another_final_tool_does_not_pass_for_a_report() -> None:
    @tool
    def finish() -> ToolResult:
        return ToolResult('{"name": "Eve", "age": 1}', final=True)

    watched, report, _ = await reported(PERSON, call("finish"), report_back(**ADA), tools=[finish])
    assert report.data == ADA
    assert watched.session.messages[3].text == prompt("report_reminder")


async def test_a_report_in_a_python_type_comes_back_in_it() -> None:
    _, report, _ = await reported(list[Point], report_back(result=[{"x": 1}, {"x": 2, "y": 3}]))
    assert report.value == [Point(1), Point(2, 3)]
    assert report.data == [{"x": 1}, {"x": 2, "y": 3}]


async def test_what_a_type_wants_beyond_its_schema_is_checked_too() -> None:
    watched, report, _ = await reported(Visit, report_back(day="2023-02-30"), report_back(day="2024-02-29"))
    refused = watched.session.messages[2].tool_results[0]
    assert refused.is_error
    assert "day" in refused.text
    assert report.value == Visit(datetime.date(2024, 2, 29))


async def test_a_report_over_the_limit_of_a_result_is_whole_all_the_same() -> None:
    data = {"text": "x" * 2_000}
    watched, report, result = await reported({}, report_back(**data), limits=Limits(result_characters=100))
    assert report.data == data == json.loads(result.text)
    block = watched.session.messages[-1].tool_results[0]
    assert len(block.text) < 300
    assert block.whole
    assert json.loads(watched.session.store.read(block.whole)) == data


# Without a report


async def test_a_model_that_forgets_the_report_is_reminded_once() -> None:
    usage = Usage(10, 5, cost=0.01)
    model = ScriptedModel(["It is Ada.", report_back(**ADA)], usage=usage)
    report = Report(PERSON)
    watched = Watched(model, [])
    result = await watched.session.run("Who is it?", output=report)
    watched.check()
    assert (result.status, result.turns, result.usage) == ("done", 2, usage + usage)
    assert (report.data, json.loads(result.text)) == (ADA, ADA)
    said = [message.text for message in result.conversation if message.role == "user" and message.text]
    assert said == ["Who is it?", prompt("report_reminder")]


async def test_without_a_report_after_the_reminder_it_is_an_error_with_what_was_said() -> None:
    _, report, result = await reported(PERSON, "It is Ada.", "As I said: Ada.", "never asked")
    assert (result.status, result.error, result.text, result.turns) == ("error", MISSING, "As I said: Ada.", 2)
    assert not report.has_data
    assert (result.structured_output, result.has_structured_output) == (None, False)


async def test_a_failure_after_the_reminder_keeps_the_earlier_words() -> None:
    _, _, result = await reported(PERSON, "It is Ada.", ProviderError("overloaded"))
    assert (result.status, result.error, result.text, result.turns) == ("error", "overloaded", "It is Ada.", 2)


async def test_a_run_that_did_not_end_by_itself_is_not_reminded() -> None:
    watched, _, result = await reported(PERSON, ProviderError("overloaded"))
    assert result.error == "overloaded"
    assert len(watched.model.requests) == 1


@pytest.mark.parametrize("turns", [1, 2, 3])
async def test_the_turns_count_over_both_runs(turns: int) -> None:
    watched, report, result = await reported(
        PERSON, "Ada.", report_back(name="?"), report_back(**ADA), limits=Limits(max_turns=turns)
    )
    assert (result.status, result.turns) == ("done" if turns == 3 else "max_turns", turns)
    assert report.has_data == (turns == 3)
    assert len(watched.model.requests) == turns
    assert watched.session.agent.limits.max_turns == turns, "the agent is as it was"
    if turns == 1:
        assert result.error == NO_TURNS_LEFT


@pytest.mark.parametrize(
    ("limits", "status"),
    [
        (Limits(max_total_tokens=15), "max_total_tokens"),
        (Limits(max_cost=0.01), "max_cost"),
        (Limits(max_total_tokens=20), "max_total_tokens"),
        (Limits(max_cost=0.015), "max_cost"),
    ],
)
async def test_tokens_and_cost_count_over_both_runs(limits: Limits, status: str) -> None:
    model = ScriptedModel(["Ada.", report_back(name="?"), report_back(**ADA)], usage=Usage(10, 5, cost=0.01))
    report = Report(PERSON)
    watched = Watched(model, [], limits)
    result = await watched.session.run("Who is it?", output=report)
    assert result.status == status
    assert not report.has_data


async def test_the_time_counts_over_both_runs() -> None:
    report = Report(PERSON)
    watched = Watched([Delay(0.2, "Ada."), Delay(30, report_back(**ADA))], [], Limits(max_seconds=0.4))
    result = await asyncio.wait_for(watched.session.run("Who is it?", output=report), 20)
    assert result.status == "max_seconds"


# In the log


async def test_a_report_is_found_again_in_another_process(tmp_path: Path) -> None:
    report = Report(NUMBERS)
    with Log(tmp_path) as log:
        model = ScriptedModel([report_back(result=[1, 2])])
        with Session.open(log, agent=Agent(model=model)) as session:
            await session.run("Count.", output=report)
    again = Report(NUMBERS)
    with Log(tmp_path) as log:
        agent = Agent(model=ScriptedModel([]))
        with Session.open(log, session.id, agent) as session:
            result = await session.run(output=again)
    assert (result.status, result.turns, result.text) == ("done", 0, "[1,2]")
    assert again.data == [1, 2] == report.data


async def test_a_recorded_report_that_does_not_satisfy_the_schema_of_now_is_asked_for_again(tmp_path: Path) -> None:
    first, second = Report(NUMBERS), Report({"type": "string"})
    with Log(tmp_path) as log:
        model = ScriptedModel([report_back(result=[1, 2]), report_back(result="one, two")])
        with Session.open(log, agent=Agent(model=model)) as session:
            await session.run("Count.", output=first)
        with Session.open(log, session.id, Agent(model=model)) as session:
            result = await session.run(output=second)
    assert (result.status, second.data) == ("done", "one, two")


async def test_after_more_was_said_an_old_report_is_old(tmp_path: Path) -> None:
    first, second = Report(NUMBERS), Report(NUMBERS)
    with Log(tmp_path) as log:
        model = ScriptedModel([report_back(result=[1]), "Hm.", "No."])
        with Session.open(log, agent=Agent(model=model)) as session:
            await session.run("Count.", output=first)
        with Session.open(log, session.id, Agent(model=model)) as session:
            result = await session.run("Count again.", output=second)
    assert (result.status, second.has_data) == ("error", False)


@pytest.mark.parametrize(
    ("effect", "limits", "found"),
    [
        ("read", Limits(max_turns=2, max_cost=1.5), [7]),
        ("read", Limits(max_turns=1), [0]),
        ("read", Limits(max_cost=1), [0]),
        ("write", Limits(), [0]),
    ],
)
async def test_a_report_beside_a_look_is_made_again_if_a_turn_is_left(
    effect: Effect, limits: Limits, found: list[int]
) -> None:
    @tool(effect=effect)
    def count() -> str:
        return "There are 7."

    steps = [[call("count"), report_back(result=[0])], report_back(result=[7])]
    agent = Agent(model=ScriptedModel(steps, usage=Usage(cost=1.0)), tools=[count], limits=limits)
    result = await agent.run("Count.", output=NUMBERS)
    assert (result.status, result.structured_output) == ("done", found)
    refused = [each.text for message in result.messages for each in message.tool_results if each.is_error]
    assert len(refused) == (found == [7])
    assert all("made without the results of the other calls" in text for text in refused)


async def test_a_report_in_the_last_turn_counts_after_a_kill(tmp_path: Path) -> None:
    @tool(effect="read")
    def count() -> str:
        return "There are 7."

    report, limits = Report(NUMBERS), Limits(max_turns=1)
    reply = Message("assistant", [call("count"), report_back(result=[7])])
    with Log(tmp_path) as log:
        journal = log.create()
        journal.write_now(RunStarted(limits.changed), MessageEntry(Message.user("Count.")), MessageEntry(reply))
        journal.close()
        with Session.open(log, journal.id, Agent(model=ScriptedModel([]), tools=[count], limits=limits)) as session:
            result = await session.run(output=report)
    assert (result.status, report.data) == ("done", [7])


async def test_a_cancelled_run_with_a_report_keeps_it_and_resumes_to_it(tmp_path: Path) -> None:
    begun = asyncio.Event()

    @tool
    async def dawdle() -> str:
        begun.set()
        await asyncio.sleep(60)
        return "late"

    report = Report(NUMBERS)
    with Log(tmp_path) as log:
        model = ScriptedModel([[report_back(result=[7]), call("dawdle")]])
        with Session.open(log, agent=Agent(model=model, tools=[dawdle])) as session:
            running = asyncio.ensure_future(session.run("Count.", output=report))
            await begun.wait()
            session.cancel()
            cancelled = await running
            assert (cancelled.status, cancelled.structured_output) == ("cancelled", [7])
        again = Report(NUMBERS)
        with Session.open(log, session.id, Agent(model=ScriptedModel([]), tools=[dawdle])) as session:
            result = await session.run(output=again)
    assert (result.status, again.data) == ("done", [7])


async def test_a_conversation_that_was_finished_in_words_can_be_asked_for_its_report_later() -> None:
    report = Report(PERSON)
    history = [Message.user("Who is it?"), Message.assistant("Ada, who is 36.")]
    watched = Watched([report_back(**ADA)], [], messages=history)
    result = await watched.session.run(output=report)
    assert (result.status, report.data) == ("done", ADA)


def test_recalling_from_what_is_no_report_finds_nothing() -> None:
    report = Report(PERSON)
    report.recall([])
    report.recall([Message.user("Hello")])
    report.recall([Message.assistant(report_back(**ADA)), Message.user("No results.")])
    assert not report.has_data
