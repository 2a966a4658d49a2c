"""`outrider -p --schema FILE`: the answer as data that satisfies a JSON Schema."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from outrider.prompts import prompt
from outrider.runtime.events import RunFinished
from tests.cli.asking import ask, check_result, latest, messages, sessions, streamed
from tests.cli.program import outrider
from tests.modelserver import ModelServer
from tests.streams import Answer

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
}
ADA = {"name": "Ada Lovelace, née Byron", "age": 36}


@pytest.fixture(autouse=True)
def api_without_schemas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model reports with the tool, as it does where the API enforces no schema."""
    capabilities = tmp_path / "capabilities.json"
    capabilities.write_text('{"*": {"structured_output": "no"}}')
    monkeypatch.setenv("OUTRIDER_CAPABILITIES", str(capabilities))


@pytest.fixture
def person(tmp_path: Path) -> str:
    (tmp_path / "person.json").write_text(json.dumps(PERSON))
    return str(tmp_path / "person.json")


def report(data: dict[str, Any], number: int = 1) -> Answer:
    return Answer("", ((f"call_{number}", "report_back", data),))


async def test_the_answer_is_the_data_as_json_in_one_line(person: str) -> None:
    async with ModelServer([report(ADA)]) as server:
        ended = await ask(server, "-p", "Who is it?", "--schema", person)
    assert (ended.returncode, ended.stdout) == (0, '{"name":"Ada Lovelace, née Byron","age":36}\n')
    request = server.requests[0].json
    (tool,) = [each for each in request["tools"] if each["name"] == "report_back"]
    assert tool["input_schema"]["properties"] == PERSON["properties"]
    assert "`report_back`" in json.dumps(request["system"]), "the prompt names the tool"


async def test_json_has_the_data_decoded_and_its_text_is_the_same(person: str) -> None:
    async with ModelServer([report(ADA)]) as server:
        ended = await ask(server, "-p", "Who is it?", "--schema", person, "--output-format", "json")
    result = json.loads(ended.stdout)
    check_result(result)
    assert (ended.returncode, result["status"], result["structured_output"]) == (0, "done", ADA)
    assert json.loads(result["text"]) == result["structured_output"]
    assert "stop_reason" not in result


@pytest.mark.parametrize(("schema", "given", "data"), [(PERSON, ADA, ADA), ({"type": "null"}, {"result": None}, None)])
async def test_the_event_at_the_end_has_the_data_too(tmp_path: Path, schema: Any, given: Any, data: Any) -> None:
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    async with ModelServer([Answer("Let me see."), report(given)]) as server:
        arguments = ("--schema", str(tmp_path / "schema.json"), "--output-format", "stream-json")
        ended = await ask(server, "-p", "Who is it?", *arguments)
    events, result = streamed(ended.stdout)
    first, second = [event for event in events if isinstance(event, RunFinished)]
    assert (first.structured_output, first.has_structured_output) == (None, False)
    assert (second.structured_output, second.has_structured_output) == (data, True)
    assert (result["status"], result["structured_output"]) == ("done", data)


async def test_nonsense_is_answered_with_every_violation_and_the_model_tries_again(person: str) -> None:
    async with ModelServer([report({"name": 3, "age": -1}, 1), report({}, 2), report(ADA, 3)]) as server:
        ended = await ask(server, "-p", "Who is it?", "--schema", person, "--output-format", "stream-json")
    _, result = streamed(ended.stdout)
    assert (ended.returncode, result["structured_output"], result["turns"]) == (0, ADA, 3)
    first, second, last = [each for message in messages() for each in message.tool_results]
    assert first.is_error
    assert "- name: " in first.text
    assert "- age: " in first.text
    assert '"age" is a required property' in second.text
    assert json.loads(last.text) == ADA


async def test_a_model_that_never_reports_is_reminded_once_and_then_it_is_an_error(person: str) -> None:
    async with ModelServer([Answer("It is Ada."), Answer("Ada, as I said."), Answer("never asked")]) as server:
        ended = await ask(server, "-p", "Who is it?", "--schema", person, "--output-format", "stream-json")
        assert len(server.requests) == 2
    _, result = streamed(ended.stdout)
    assert (ended.returncode, result["status"], result["structured_output"]) == (1, "error", None)
    assert (result["text"], result["turns"]) == ("Ada, as I said.", 2)
    assert "without a report" in result["error"]
    assert [message.text for message in messages()] == [
        "Who is it?",
        "It is Ada.",
        prompt("report_reminder"),
        "Ada, as I said.",
    ]


async def test_without_a_report_text_has_the_words_and_the_code_says_that_they_are_no_data(person: str) -> None:
    async with ModelServer([Answer("It is Ada."), Answer("Ada, as I said.")]) as server:
        ended = await ask(server, "-p", "Who is it?", "--schema", person)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "Ada, as I said." in ended.stderr


async def test_a_reminder_may_be_all_it_takes(person: str) -> None:
    async with ModelServer([Answer("It is Ada."), report(ADA)]) as server:
        ended = await ask(server, "-p", "Who is it?", "--schema", person)
    assert (ended.returncode, json.loads(ended.stdout)) == (0, ADA)


async def test_turns_count_over_the_reminder(person: str) -> None:
    async with ModelServer([Answer("It is Ada."), report(ADA)]) as server:
        ended = await ask(server, "-p", "Who?", "--schema", person, "--max-turns", "1", "--output-format", "json")
    result = json.loads(ended.stdout)
    assert (ended.returncode, result["status"], result["structured_output"]) == (3, "max_turns", None)


@pytest.mark.parametrize(
    ("schema", "given", "data"),
    [
        ({"type": "array", "items": {"type": "integer"}}, {"result": [1, 2]}, [1, 2]),
        ({"type": "ARRAY", "items": {"type": "INTEGER"}}, {"result": []}, []),
        ({"type": "string"}, {"result": "Ada"}, "Ada"),
        ({"type": "null"}, {"result": None}, None),
        ({}, {"anything": {"goes": 1}}, {"anything": {"goes": 1}}),
        (True, {}, {}),
    ],
)
async def test_any_root_is_data(tmp_path: Path, schema: Any, given: dict[str, Any], data: Any) -> None:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(schema))
    async with ModelServer([report(given)]) as server:
        ended = await ask(server, "-p", "Go.", "--schema", str(path))
    assert ended.returncode == 0
    assert json.loads(ended.stdout) == data
    assert ended.stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file or directory"),
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff\xfe{", "is not JSON"),
        (b'"string"', "is not a JSON Schema"),
        (b"[]", "is not a JSON Schema"),
        (b"false", "no data can satisfy"),
        (b'{"type": "strnig"}', "cannot be used"),
        (b'{"$ref": "https://example.com/a.json"}', "cannot be used"),
        (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, "--schema"),
        (b'{"properties": {"a":' * 150 + b"{}" + b"}}" * 150, "levels deep"),
        (b'{"description": "' + b"x" * 1_100_000 + b'"}', "the limit is"),
    ],
)
def test_a_schema_that_cannot_be_used_is_wrong_usage(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "schema.json"
    if content is not None:
        path.write_bytes(content)
    ended = outrider("-p", "Who is it?", "--model", "demo", "--schema", str(path))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("outrider: --schema")
    assert said in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert sessions() == 0


def test_a_schema_file_that_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "fifo", Path("/dev/zero")):
        ended = outrider("-p", "Who is it?", "--model", "demo", "--schema", str(path))
        assert (ended.returncode, ended.stdout) == (2, "")
        assert "is not a regular file" in ended.stderr or "directory" in ended.stderr


def test_a_schema_with_a_mark_of_its_byte_order_is_read(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(PERSON).encode())
    ended = outrider("-p", "Who is it?", "--model", "demo", "--schema", str(tmp_path / "schema.json"))
    assert (ended.returncode, json.loads(ended.stdout)) == (0, {"name": "", "age": 0}), "the schema was understood"


async def test_a_report_is_found_again_when_the_session_goes_on(person: str) -> None:
    async with ModelServer([report(ADA)]) as server:
        await ask(server, "-p", "Who is it?", "--schema", person)
        ended = await ask(server, "--continue", "--schema", person, "--output-format", "json")
        assert len(server.requests) == 1, "nobody was asked again"
    result = json.loads(ended.stdout)
    assert (ended.returncode, result["structured_output"], result["session"]) == (0, ADA, latest())


async def test_a_finished_conversation_can_be_asked_for_its_data(person: str) -> None:
    async with ModelServer([Answer("Ada Lovelace, who was 36."), report(ADA)]) as server:
        await ask(server, "-p", "Who is it?")
        ended = await ask(server, "--continue", "--schema", person)
    assert (ended.returncode, json.loads(ended.stdout)) == (0, ADA)


async def test_without_a_schema_there_is_no_such_tool() -> None:
    async with ModelServer([Answer("Ada.")]) as server:
        await ask(server, "-p", "Who is it?")
    assert "report_back" not in server.requests[0].body.decode()
