"""Sub-agents with an output schema: the tools they get, how they end, and the data they return."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import ToolUseBlock
from outrider.log.log import Log
from outrider.prompts import prompt
from outrider.providers.base import Request
from outrider.runtime.events import SubagentEvent, SubagentStarted, ToolFinished
from outrider.runtime.limits import Limits
from outrider.runtime.session import Session
from outrider.subagents import Profile
from outrider.testing import Delay, Step, call, malformed_call
from outrider.tools.result import ToolResult
from outrider.tools.tool import tool
from tests.conversations import PNG_BYTES
from tests.lengths import only_long
from tests.subagents.reporting import HELPER, Team, answers, last_answers, offered, report_back, task
from tests.subagents.teams import bench_in, play, results_of, run_in

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
ADA = {"name": "Ada", "age": 36}
SHAPES = [
    pytest.param(PERSON, ADA, PERSON, id="object"),
    pytest.param({}, {"anything": [1, None]}, {"type": "object"}, id="empty"),
    pytest.param({"type": "array", "items": {"type": "integer"}}, [1, 2], None, id="array"),
    pytest.param({"type": "string"}, "Ada Lovelace, 1815 – ☂", None, id="string"),
    pytest.param({"type": ["number", "null"]}, None, None, id="null"),
    pytest.param({"type": "boolean"}, False, None, id="false"),
    pytest.param(
        {"type": "OBJECT", "properties": {"name": {"type": "STRING"}}},
        {"name": "Ada"},
        {"type": "object", "properties": {"name": {"type": "string"}}},
        id="upper-case",
    ),
    pytest.param({"type": "ARRAY", "items": {"type": "STRING"}}, ["a"], None, id="upper-case-array"),
]


@pytest.fixture(params=["memory", "log"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log | None]:
    if request.param == "memory":
        yield None
    else:
        with Log(tmp_path) as opened:
            yield opened


# Files


async def test_the_files_of_an_answer_reach_the_parent(log: Log | None) -> None:
    @tool
    def draw() -> ToolResult:
        """Draw a chart."""
        return ToolResult("Here it is.", [Attachment(PNG_BYTES, name="chart.png", description="sales")], final=True)

    team = Team([task("Draw it.")], {"Draw it.": [call("draw")]}, log=log, tools=[draw])
    await team.run()
    result = team.results[0].result
    (block,) = result.attachments
    assert (result.text, block.name, block.description) == ("Here it is.", "chart.png", "sales")
    assert team.session.store.read(block) == PNG_BYTES


# What is offered


async def test_without_a_schema_the_last_text_is_the_result(log: Log | None) -> None:
    team = Team([task("Who?")], {"Who?": ["It is Ada."]}, log=log)
    assert (await team.run()).status == "done"
    (request,) = team.requests("Who?")
    assert offered(request) is None
    assert "report_back" not in request.system
    (finished,) = team.results
    assert (finished.result.text, finished.result.is_error) == ("It is Ada.", False)
    assert "structured_output" not in finished.details


@pytest.mark.parametrize(("schema", "data", "shown"), SHAPES)
async def test_data_comes_back_as_it_was_reported(log: Log | None, schema: Any, data: Any, shown: Any) -> None:
    arguments = {"result": data} if shown is None else data
    team = Team([task("Who?", output_schema=schema)], {"Who?": [report_back(**arguments), "never asked"]}, log=log)
    assert (await team.run()).status == "done"
    (request,) = team.requests("Who?")
    parameters = offered(request)
    assert parameters is not None
    if shown is None:
        assert parameters["required"] == ["result"]
        parameters = parameters["properties"]["result"]
        shown = json.loads(json.dumps(schema).replace("ARRAY", "array").replace("STRING", "string"))
    assert parameters == shown
    assert request.system.startswith("You help.")
    assert "`report_back`" in request.system
    (finished,) = team.results
    assert not finished.result.is_error
    assert json.loads(finished.result.text) == finished.details["structured_output"] == data
    assert finished.details["status"] == "done"


async def test_the_tool_is_not_seen_by_the_parent_nor_the_schema_changed() -> None:
    schema = {"type": "ARRAY", "items": {"$ref": "#/$defs/N"}, "$defs": {"N": {"type": "INTEGER"}}}
    before = json.dumps(schema)
    team = Team([task("Who?", output_schema=schema)], {"Who?": [report_back(result=[1])]})
    await team.run()
    for request in team.model.requests:
        if offered(request, "Task"):
            assert offered(request) is None
            assert "report_back" not in request.system
    assert json.dumps(schema) == before
    assert team.session.messages[1].tool_calls[0].input["output_schema"] == schema


# What stays


@pytest.mark.parametrize(("schema", "data", "shown"), SHAPES)
async def test_the_data_is_there_after_a_reload(tmp_path: Path, schema: Any, data: Any, shown: Any) -> None:
    arguments = {"result": data} if shown is None else data
    with Log(tmp_path) as log:
        team = Team([task("Who?", output_schema=schema)], {"Who?": [report_back(**arguments)]}, log=log)
        await team.run()
        (finished,) = team.results
    with Log(tmp_path) as again:
        (answer,) = answers(again, team.session.id)
        assert answer.details == finished.details
        assert json.loads(answer.result.text) == answer.details["structured_output"] == data
        assert answer.result == finished.result
        with Session.open(again, team.session.id, team.agent) as session:
            assert session.messages == team.session.messages
        (child,) = again.children(team.session.id)
        assert child.id == answer.details["session"]
        (report,) = answers(again, child.id)
        assert report.final
        assert json.loads(report.result.text) == report.details["structured_output"] == data
        assert [message.role for message in again.messages(child.id)] == ["user", "assistant", "user"]


async def test_a_report_longer_than_a_result_may_be_is_whole_in_the_details(log: Log | None) -> None:
    data = {"text": "é" * 5_000}
    limits = Limits(result_characters=500)
    team = Team([task("Who?", output_schema={})], {"Who?": [report_back(**data)]}, log=log, limits=limits)
    await team.run()
    (finished,) = team.results
    assert finished.details["structured_output"] == data
    assert len(finished.result.text) <= 500
    assert json.loads(finished.result.text)["data"]["text"].startswith("é")
    assert finished.result.whole is not None
    assert json.loads(team.session.store.read(finished.result.whole)) == data
    if log:
        assert team.stored[0].details["structured_output"] == data


async def test_a_long_report_can_be_read_on_by_its_reference(folder: Path) -> None:
    """In lines, for that is how Read reads."""
    rows = [{"file": f"{number}.py", "text": "x" * 30} for number in range(400)]

    def read_on(request: Request) -> Step:
        shown = json.loads(request.messages[-1].tool_results[0].text)
        reference = re.search(r"attachment:\w+", shown["shortened"])
        assert reference
        assert {"file": "200.py", "text": "x" * 30} not in shown["data"]["rows"]
        return call("Read", file_path=reference[0], offset=780, limit=60)

    send = task("Which?", subagent_type="Explore", output_schema={})
    model = play([send, read_on, "Done."], {"Which?": [report_back(rows=rows)]})
    session = await run_in(bench_in(folder), model)
    _, read = results_of(session)
    assert not read.is_error
    assert '"200.py"' in read.text


# What is wrong


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (report_back(name=3, age=-1, more=True), ["name: ", "age: ", "more"]),
        (report_back(), ['"name" is a required', '"age" is a required']),
        (malformed_call("report_back", '{"name": "Ada", "age"'), ["not a JSON object", '{"name": "Ada", "age"']),
        (malformed_call("report_back", "[]"), ["not a JSON object"]),
    ],
    ids=["three violations", "nothing", "broken", "a list"],
)
async def test_what_does_not_satisfy_the_schema_is_answered_and_the_child_goes_on(
    log: Log | None, wrong: ToolUseBlock, said: list[str]
) -> None:
    team = Team([task("Who?", output_schema=PERSON)], {"Who?": [wrong, report_back(**ADA)]}, log=log)
    await team.run()
    _, second = team.requests("Who?")
    ((text, is_error),) = last_answers(second.messages[-1])
    assert is_error
    for each in said:
        assert each in text
    (finished,) = team.results
    assert finished.details["structured_output"] == ADA
    assert finished.details["turns"] == 2


async def test_of_two_reports_the_first_valid_one_counts(log: Log | None) -> None:
    reply = [report_back(name="?"), report_back(**ADA), report_back(name="Eve", age=1)]
    team = Team([task("Who?", output_schema=PERSON)], {"Who?": [reply]}, log=log)
    await team.run()
    (finished,) = team.results
    assert finished.details["structured_output"] == ADA == json.loads(finished.result.text)
    inner = [event.event for event in team.events if isinstance(event, SubagentEvent)]
    ended = [event for event in inner if isinstance(event, ToolFinished)]
    assert sorted(event.result.is_error for event in ended) == [False, True, True]
    if log:
        child = answers(log, finished.details["session"])
        assert [answer.result.is_error for answer in child] == [True, False, True]
        assert [answer.final for answer in child] == [False, True, False]


async def test_calls_beside_the_report_are_carried_out_before_the_end(log: Log | None) -> None:
    written: list[str] = []

    @tool(name="Write", concurrent=False)
    def write(name: str) -> str:
        """Write a file."""
        written.append(name)
        return f"{name} is written"

    reply = [call("Write", name="a"), report_back(**ADA), call("Write", name="b")]
    team = Team([task("Who?", output_schema=PERSON)], {"Who?": [reply]}, log=log, tools=[write])
    await team.run()
    (finished,) = team.results
    assert finished.details["structured_output"] == ADA
    assert (finished.details["turns"], len(team.requests("Who?"))) == (1, 1)
    assert sorted(written) == ["a", "b"]
    if log:
        told = [answer.result.text for answer in answers(log, finished.details["session"])]
        assert told == ["a is written", finished.result.text, "b is written"]


async def test_a_child_that_forgets_its_report_is_reminded_once(log: Log | None) -> None:
    team = Team([task("Who?", output_schema=PERSON)], {"Who?": ["It is Ada.", report_back(**ADA)]}, log=log)
    await team.run()
    _, second = team.requests("Who?")
    assert second.messages[-1].text == prompt("report_reminder")
    (finished,) = team.results
    assert finished.details["structured_output"] == ADA
    assert finished.details["turns"] == 2


async def test_a_child_that_never_reports_has_failed_with_its_words(log: Log | None) -> None:
    team = Team([task("Who?", output_schema=PERSON)], {"Who?": ["Hm.", "It is Ada, 36.", "never asked"]}, log=log)
    assert (await team.run()).status == "done", "the parent goes on"
    (finished,) = team.results
    assert finished.result.is_error
    assert "without a report" in finished.result.text
    assert finished.result.text.endswith("It is Ada, 36.")
    assert "structured_output" not in finished.details
    assert len(team.requests("Who?")) == 2
    if log:
        assert team.stored[0].result == finished.result


async def test_a_child_whose_turns_are_used_up_has_failed(log: Log | None) -> None:
    helper = Profile(name="Helper", description="Helps.", limits={"max_turns": 3})
    steps: list[Step] = [report_back(name="?")] * 4
    team = Team([task("Who?", output_schema=PERSON)], {"Who?": steps}, log=log, profiles=[helper])
    assert (await team.run()).status == "done"
    (finished,) = team.results
    assert finished.result.is_error
    assert "turns were used up" in finished.result.text
    assert finished.details["status"] == "max_turns"
    assert len(team.requests("Who?")) == 3


# Several at once


async def test_two_children_do_not_share_a_schema(log: Log | None) -> None:
    """Each is asked while the other is at work, and tries what only the other may report."""
    number = {"type": "integer"}
    children: dict[str, list[Step]] = {
        "one": [Delay(0.02, report_back(result=7)), Delay(0.02, report_back(**ADA))],
        "two": [Delay(0.01, report_back(**ADA)), Delay(0.04, report_back(result=7))],
        "none": [Delay(0.03, report_back(**ADA)), "Words."],
    }
    sends = [task("one", output_schema=PERSON), task("two", output_schema=number), task("none")]
    team = Team(sends, children, log=log)
    await team.run()
    one, two, none = team.results
    assert one.details["structured_output"] == ADA
    assert two.details["structured_output"] == 7
    assert none.result.text == "Words."
    assert "structured_output" not in none.details
    for request in team.requests("one"):
        assert offered(request) == PERSON
    for request in team.requests("two"):
        parameters = offered(request)
        assert parameters is not None
        assert parameters["properties"] == {"result": number}
    first, second = team.requests("none")
    assert offered(first) is None
    assert "There is no tool named 'report_back'" in last_answers(second.messages[-1])[0][0]


@pytest.mark.parametrize(("count", "at_once"), [(40, 16), *only_long((200, 64))])
async def test_many_children_with_as_many_schemas(log: Log | None, count: int, at_once: int) -> None:
    """In one reply, many at a time: each sees its own schema alone, and what comes back is its own."""

    def child(request: Request) -> Step:
        number = int(request.messages[0].text)
        if len(request.messages) == 1:  # what its neighbour may report, and it may not
            return Delay(0.01, report_back(**{f"field_{number + 1}": number + 1}))
        return Delay(0.001 * (number % 7), report_back(**{f"field_{number}": number}))

    def schema(number: int) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {f"field_{number}": {"const": number}},
            "required": [f"field_{number}"],
            "additionalProperties": False,
        }

    numbers = range(count)
    team = Team([task(str(n), output_schema=schema(n)) for n in numbers], child, log=log, at_once=at_once)
    await team.run()
    assert [finished.details["structured_output"] for finished in team.results] == [{f"field_{n}": n} for n in numbers]
    assert [json.loads(finished.result.text) for finished in team.results] == [{f"field_{n}": n} for n in numbers]
    for request in team.model.requests:
        if offered(request, "Task") is None:
            number = int(request.messages[0].text)
            assert offered(request) == schema(number)
    assert len(team.model.requests) == 2 + 2 * len(numbers)
    assert len({event.session for event in team.events if isinstance(event, SubagentStarted)}) == len(numbers)
    if log:
        assert [answer.details["structured_output"] for answer in team.stored] == [{f"field_{n}": n} for n in numbers]
        assert len(log.children(team.session.id)) == len(numbers)


# Profiles that report by no schema

TEXT_ONLY = Profile(name="Writer", description="Writes prose.", schemas=False)


async def test_where_no_profile_takes_a_schema_the_argument_is_not_offered() -> None:
    send = task("Who?", subagent_type="Writer", output_schema=PERSON)
    team = Team([send], {"Who?": ["never asked"]}, profiles=[TEXT_ONLY])
    await team.run()
    parameters = offered(team.model.requests[0], "Task")
    assert parameters is not None
    assert "output_schema" not in parameters["properties"]
    (finished,) = team.results
    assert finished.result.is_error
    assert "output_schema" in finished.result.text
    assert team.requests("Who?") == []


async def test_a_schema_for_a_profile_that_takes_none_is_refused(log: Log | None) -> None:
    send = task("Who?", subagent_type="Writer", output_schema={})
    team = Team(
        [send, task("And?", output_schema={})], {"And?": [report_back()]}, log=log, profiles=[HELPER, TEXT_ONLY]
    )
    await team.run()
    parameters = offered(team.model.requests[0], "Task")
    assert parameters is not None
    assert "Only for: Helper." in parameters["properties"]["output_schema"]["description"]
    refused, done = team.results
    assert refused.result.is_error
    assert "Writer takes no output_schema" in refused.result.text
    assert team.requests("Who?") == []
    assert done.details["structured_output"] == {}
