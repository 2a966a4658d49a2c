"""Schemas that a model sends along with a task, made to crash, hang, fetch or fill the memory.

Each is answered: by a clear refusal, or by a sub-agent that works with it. Meanwhile everything else goes on.
"""

from __future__ import annotations

import asyncio
import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from outrider.conversation.messages import ToolUseBlock
from outrider.log.log import Log
from outrider.providers.base import Request
from outrider.providers.streams.stream import finished_call
from outrider.runtime.events import SubagentStarted, ToolFinished
from outrider.subagents import Profile
from outrider.testing import Step
from tests.subagents.reporting import Team, report_back, task

LONGEST = 20.0
"""Seconds for one task, on a machine that is busy with others."""
STILL = 1.0
"""Seconds of work after which something else must have had its turn."""


class Ticker:
    """A task beside the others, and how much was computed between two of its turns."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._ticking = asyncio.ensure_future(self._tick())

    async def _tick(self) -> None:
        last = time.process_time()  # not the wall: others keep the machine busy too
        while True:
            await asyncio.sleep(0.005)
            now = time.process_time()
            self.longest, last = max(self.longest, now - last), now

    async def stop(self) -> None:
        await asyncio.sleep(0.01)
        self._ticking.cancel()
        assert self.longest < STILL


async def sent(team: Team) -> ToolFinished:
    """How the one task of the team ended; within its time, and without holding up others."""
    ticker = Ticker()
    await asyncio.sleep(0.01)
    async with asyncio.timeout(LONGEST):
        result = await team.run()
    await ticker.stop()
    assert (result.status, result.error, result.text) == ("done", "", "Thank you."), "the parent goes on"
    (finished,) = team.results
    return finished


def with_schema(schema: Any, *steps: Step, **options: Any) -> Team:
    return Team([task("Who?", output_schema=schema)], {"Who?": steps}, **options)


def check_refused(team: Team, finished: ToolFinished, said: str) -> None:
    assert finished.result.is_error
    assert said in finished.result.text
    assert len(finished.result.text) < 1_000
    assert not any(isinstance(event, SubagentStarted) for event in team.events)
    assert team.requests("Who?") == []


# Refused


@contextmanager
def counting_server() -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


REMOTE: list[Callable[[str], Any]] = [
    lambda url: {"$ref": f"{url}/a.json"},
    lambda url: {"type": "object", "properties": {"a": {"items": {"$ref": f"{url}/a.json#/x"}}}},
    lambda url: {"$schema": f"{url}/meta.json"},
    lambda url: {"$id": f"{url}/", "$ref": "b.json"},
    lambda url: {"$dynamicRef": f"{url}/a.json#x"},
    lambda url: {"$ref": "#/$defs/a", "$defs": {"a": {"$id": f"{url}/b", "$ref": "c"}}},
]


@pytest.mark.parametrize("make", REMOTE)
async def test_nothing_is_fetched(make: Callable[[str], Any]) -> None:
    with counting_server() as (url, asked):
        team = with_schema(make(url))
        check_refused(team, await sent(team), "output_schema cannot be used")
        assert asked == []


async def test_no_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text('{"type": "object", "properties": {"secret": {"const": "swordfish"}}}')
    for reference in (file.as_uri(), str(file), file.name, "file:///etc/passwd"):
        team = with_schema({"$ref": reference})
        finished = await sent(team)
        check_refused(team, finished, "output_schema cannot be used")
        assert "swordfish" not in finished.result.text


def _nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels // 2):
        schema = {"properties": {"a": schema}}
    return schema


def _doubling(keyword: str) -> dict[str, Any]:
    definitions: dict[str, Any] = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, "d40": {"type": "object"}}}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        pytest.param({"type": "strnig"}, "strnig", id="no such type"),
        pytest.param({"properties": {"a": {"pattern": "("}}}, "properties.a.pattern", id="no pattern"),
        pytest.param({"properties": []}, "properties", id="no properties"),
        pytest.param({"$ref": "#/$defs/gone"}, "gone", id="a reference that leads nowhere"),
        pytest.param({"description": "x" * 10_000_000}, "10,000,018 bytes", id="ten megabytes of text"),
        pytest.param({"enum": ["x" * 1_000] * 10_000}, "at most 1,000,000", id="ten megabytes of alternatives"),
        pytest.param(_nested(120), "100 levels deep", id="a hundred levels"),
        pytest.param(_doubling("allOf"), "multiply", id="references that double"),
        pytest.param(_doubling("anyOf"), "multiply", id="alternatives that double"),
        pytest.param({"pattern": "((a{1000}){1000}){1000}"}, "pattern", id="a huge pattern"),
    ],
)
async def test_a_schema_that_cannot_be_used_is_refused_with_a_reason(schema: Any, said: str) -> None:
    team = with_schema(schema)
    finished = await sent(team)
    check_refused(team, finished, said)
    assert finished.result.text.startswith("No sub-agent was started: output_schema cannot be used")


def _deep_call(levels: int) -> ToolUseBlock:
    """As an adapter reads it from the wire: what it cannot decode stays text."""
    depth = levels // 2
    schema = '{"properties":{"a":' * depth + "{}" + "}}" * depth
    return finished_call("", "Task", json.dumps(task("Who?").input)[:-1] + f',"output_schema":{schema}}}')


@pytest.mark.parametrize("levels", [300, 500, 700, 900, 980, 1_000, 5_000, 100_000])
async def test_a_thousand_levels(levels: int) -> None:
    team = Team([_deep_call(levels)], {"Who?": []})
    finished = await sent(team)
    check_refused(team, finished, "The arguments of Task are not")
    assert "Recursion" not in finished.result.text


@pytest.mark.parametrize("levels", [180, 300, 900, 1_000, 100_000])
async def test_a_thousand_levels_in_a_log(levels: int, tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        team = Team([_deep_call(levels)], {"Who?": []}, log=log)
        finished = await sent(team)
        assert finished.result.is_error
        assert log.messages(team.session.id) == team.session.messages


@pytest.mark.parametrize("text", ['{"description": "d", "prompt": "Who?", "output_schema": {', "[]", '"Task"', ""])
async def test_a_call_that_is_cut_off_starts_no_sub_agent(text: str) -> None:
    team = Team([finished_call("", "Task", text)], {"Who?": []})
    check_refused(team, await sent(team), "The arguments of Task are not")


@pytest.mark.parametrize("schema", [True, False, 5, "object", [], [{}]])
async def test_an_invalid_schema_starts_no_sub_agent(schema: Any) -> None:
    team = with_schema(schema)
    check_refused(team, await sent(team), "output_schema")


# Taken


CATASTROPHIC = ["^(a+)+$", "^(a|aa)+$", "(a*)*b", "^(?=(a+)+$)a", r"^(a+)+\1$", "(?!x)(a*)*b", "(.*)*(.*)*(.*)*x"]


@pytest.mark.parametrize("pattern", CATASTROPHIC)
async def test_a_catastrophic_pattern_takes_no_time(pattern: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}
    team = with_schema(schema, report_back(a="a" * 50_000 + "!"), report_back())
    finished = await sent(team)
    assert finished.details["structured_output"] == {}
    ((told,),) = [message.tool_results for message in team.requests("Who?")[1].messages[-1:]]
    assert told.is_error
    assert len(told.text) < 2_000


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        pytest.param({"$ref": "#"}, {"result": {}}, None, id="itself"),
        pytest.param({"allOf": [{"$ref": "#"}]}, {"result": 1}, None, id="itself among others"),
        pytest.param(
            {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
            {"result": {}},
            None,
            id="a circle",
        ),
        pytest.param(
            {"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": False},
            {"next": {"next": {}}},
            {"next": {"next": {"x": 1}}},
            id="a list of itself",
        ),
        pytest.param(
            {"type": "object", "properties": {"a": {"enum": [f"value {n}" for n in range(50_000)]}}},
            {"a": "value 49999"},
            {"a": "value 50000"},
            id="fifty thousand alternatives",
        ),
        pytest.param(
            {"type": "object", "properties": {f"p{n}": {"type": "integer"} for n in range(5_000)}},
            {"p4999": 1},
            {f"p{n}": "x" for n in range(5_000)},
            id="five thousand violations",
        ),
        pytest.param(
            {
                "type": "object",
                "properties": {"n": {"$ref": "#/$defs/n"}},
                "$defs": {
                    "n": {"anyOf": [{"required": [key], "properties": {"n": {"$ref": "#/$defs/n"}}} for key in "ab"]}
                },
            },
            {"n": {"a": 1}},
            {"n": json.loads('{"n":' * 60 + "{}" + "}" * 60)},
            id="alternatives that multiply with the value",
        ),
        pytest.param(
            {
                "type": "object",
                "properties": {"n": {"$ref": "#/$defs/n"}},
                "$defs": {
                    "n": {
                        "required": ["n"],
                        "dependentSchemas": {"n": {"anyOf": [{"properties": {"n": {"$ref": "#/$defs/n"}}}] * 2}},
                    }
                },
            },
            {},
            {"n": json.loads('{"n":' * 60 + "{}" + "}" * 60)},
            id="dependent ones that multiply with the value",
        ),
        pytest.param(
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "type": "object",
                "properties": {"n": {"$ref": "#/definitions/n"}},
                "definitions": {"n": {"anyOf": [{"type": "array", "items": [{"$ref": "#/definitions/n"}]}] * 2}},
            },
            {"n": []},
            {"n": json.loads("[" * 60 + "1" + "]" * 60)},
            id="items that multiply with the value",
        ),
    ],
)
async def test_a_strange_schema_is_used_as_it_is(schema: Any, good: Any, bad: Any) -> None:
    steps = [report_back(**bad), report_back(**good)] if bad else [report_back(**good)]
    team = with_schema(schema, *steps)
    finished = await sent(team)
    assert not finished.result.is_error
    assert finished.details["structured_output"] == good.get("result", good)
    assert finished.details["turns"] == len(steps)
    if bad:
        (told,) = team.requests("Who?")[1].messages[-1].tool_results
        assert told.is_error
        assert len(told.text) < 60_000


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "required": ["a"], "properties": {"a": {"allOf": [{"type": "string"}, {"type": "null"}]}}},
        {"type": "object", "required": ["a"], "properties": {"a": False}},
        {"type": "object", "minProperties": 2, "maxProperties": 1},
        {"not": {}},
        {"enum": []},
    ],
)
async def test_what_nothing_can_satisfy_ends_with_the_turns_of_the_child(schema: Any) -> None:
    tried: list[int] = []

    def child(request: Request) -> Step:
        tried.append(len(tried))
        return ["Again.", report_back(a=len(tried), result=len(tried))]

    helper = Profile(name="Helper", description="Helps.", limits={"max_turns": 5})
    team = Team([task("Who?", output_schema=schema)], child, profiles=[helper])
    finished = await sent(team)
    assert finished.result.is_error
    if tried:
        assert len(tried) == 5
        assert "its turns were used up" in finished.result.text
        assert "Again." in finished.result.text
    else:
        assert "cannot be used" in finished.result.text


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"$dynamicAnchor": "n", "properties": {"a": {"$dynamicRef": "#n"}}}, id="a dynamic one"),
        pytest.param({"$defs": {"n": {"$anchor": "n"}}, "properties": {"a": {"$ref": "#n"}}}, id="an anchor"),
        pytest.param({"properties": {"a": {"$id": "urn:n", "anyOf": [{"$ref": "#"}] * 2}}}, id="a nested id"),
        pytest.param(
            {"$id": "urn:x", "properties": {"a": {"$ref": "urn:x#/$defs/n"}}, "$defs": {"n": {}}}, id="its name"
        ),
        pytest.param({"properties": {"a": {"$recursiveRef": "#"}}}, id="a recursive one"),
        pytest.param({"properties": {"a": {"$ref": "#/odd"}}, "odd": {"x": [{"$anchor": "n"}]}}, id="an odd place"),
    ],
)
async def test_references_by_name_are_refused_because_their_cost_is_unknown(schema: Any) -> None:
    finished = await sent(with_schema(schema))
    assert finished.result.is_error
    assert "refers by name; refer by path" in finished.result.text


async def test_properties_may_have_such_names() -> None:
    schema = {"type": "object", "properties": {"$id": {"type": "string"}, "$anchor": True}, "required": ["$id"]}
    finished = await sent(with_schema(schema, report_back(**{"$id": "x"})))
    assert finished.details["structured_output"] == {"$id": "x"}
