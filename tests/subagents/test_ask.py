"""ask(): one question, and an answer of the type that was asked for."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import sys
import threading
import typing
from types import SimpleNamespace
from typing import Any

import msgspec
import pydantic
import pytest

import outrider
from outrider import Agent, Limits, RunError, tool
from outrider.conversation.messages import ToolUseBlock
from outrider.errors import ProviderError, SchemaError
from outrider.providers.base import Request
from outrider.runtime.events import RunFinished, ToolFinished
from outrider.runtime.run import RunResult
from outrider.testing import Delay, ScriptedModel, Step, malformed_call
from tests.modelserver import ModelServer
from tests.streams import Answer
from tests.subagents.reporting import offered, report_back


class File(msgspec.Struct):
    path: str
    lines: int = 0


class AuthReport(msgspec.Struct):
    files: list[File]
    checked: datetime.date


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Person(pydantic.BaseModel):
    name: str
    age: int = pydantic.Field(ge=0)


class Movie(typing.TypedDict):
    title: str
    year: typing.NotRequired[int]


TYPES = [
    pytest.param(
        AuthReport,
        {"files": [{"path": "auth.py", "lines": 3}, {"path": "b.py"}], "checked": "2024-02-29"},
        AuthReport([File("auth.py", 3), File("b.py")], datetime.date(2024, 2, 29)),
        id="struct",
    ),
    pytest.param(Point, {"x": 1}, Point(1, 0), id="dataclass"),
    pytest.param(Person, {"name": "Ada", "age": 36}, Person(name="Ada", age=36), id="pydantic"),
    pytest.param(Movie, {"title": "Alien"}, {"title": "Alien"}, id="typed dict"),
    pytest.param(list[Point], {"result": [{"x": 1}, {"x": 2, "y": 3}]}, [Point(1), Point(2, 3)], id="list of ours"),
    pytest.param(list[str], {"result": ["a"]}, ["a"], id="list"),
    pytest.param(dict[str, int], {"a": 1}, {"a": 1}, id="map"),
    pytest.param(tuple[int, str], {"result": [1, "a"]}, (1, "a"), id="tuple"),
    pytest.param(bool, {"result": False}, False, id="bool"),
    pytest.param(Point | None, {"result": None}, None, id="optional"),
    pytest.param(typing.Literal["yes", "no"], {"result": "no"}, "no", id="literal"),
    pytest.param({"type": "array", "items": {"type": "integer"}}, {"result": [1, 2]}, [1, 2], id="schema of an array"),
    pytest.param({"type": "OBJECT"}, {"a": None}, {"a": None}, id="schema of an object"),
    pytest.param({}, {"a": 1}, {"a": 1}, id="empty schema"),
    pytest.param(True, {"a": 1}, {"a": 1}, id="any schema"),
]


def agent(*steps: Step, **options: Any) -> Agent:
    return Agent(model=ScriptedModel(steps), **options)


def asked_of(agent: Agent) -> list[Request]:
    return agent.model.requests  # type: ignore[union-attr]


@pytest.mark.parametrize(("output", "arguments", "value"), TYPES)
async def test_an_answer_has_the_type_that_was_asked_for(output: Any, arguments: dict[str, Any], value: Any) -> None:
    someone = agent(report_back(**arguments))
    answer = await someone.ask("Which?", output=output)
    assert answer == value
    assert type(answer) is type(value)
    (request,) = asked_of(someone)
    assert offered(request) is not None
    assert "`report_back`" in request.system


@pytest.mark.parametrize(("output", "arguments", "value"), TYPES)
def test_a_script_gets_the_same(output: Any, arguments: dict[str, Any], value: Any) -> None:
    answer = outrider.ask("Which?", output, model=ScriptedModel([report_back(**arguments)]))
    assert (answer, type(answer)) == (value, type(value))


async def test_without_a_type_the_answer_is_the_text() -> None:
    someone = agent("It is auth.py.", system="You know.")
    assert await someone.ask("Which?") == "It is auth.py."
    (request,) = asked_of(someone)
    assert (request.tools, request.system) == ((), "You know.")


def test_a_script_without_a_type_gets_the_text() -> None:
    assert outrider.ask("What's 2+2?", model="demo") == "4"


async def test_tools_are_used_on_the_way() -> None:
    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "auth.py"

    events: list[Any] = []
    someone = agent(ToolUseBlock("", "look", {}), report_back(x=1), tools=[look])
    assert await someone.ask("Where?", Point, observer=events.append) == Point(1)
    assert [event.name for event in events if isinstance(event, ToolFinished)] == ["look", "report_back"]
    assert [event.status for event in events if isinstance(event, RunFinished)] == ["done"]
    assert [each.name for each in someone.tools] == ["look"], "the agent is as it was"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (report_back(name=3, age=-1), ["name", "age"]),
        (report_back(), ["name", "age"]),
        (malformed_call("report_back", '{"name"'), ["not a JSON object"]),
    ],
)
async def test_what_does_not_fit_goes_back_with_every_violation(wrong: Any, said: list[str]) -> None:
    someone = agent(wrong, report_back(name="Ada", age=36))
    assert await someone.ask("Who?", Person) == Person(name="Ada", age=36)
    (told,) = asked_of(someone)[1].messages[-1].tool_results
    assert told.is_error
    assert all(each in told.text for each in said)


# Without an answer


async def _failed(someone: Agent, output: Any = None) -> RunError:
    with pytest.raises(RunError, match="ended without an answer") as failed:
        await someone.ask("Who?", output)
    assert isinstance(failed.value.result, RunResult)
    assert failed.value.result.conversation[0].text == "Who?"
    return failed.value


@pytest.mark.parametrize("output", [None, Person, {}])
async def test_a_model_that_fails_is_an_error_with_the_run(output: Any) -> None:
    error = await _failed(agent(ProviderError("overloaded")), output)
    assert "overloaded" in str(error)
    assert (error.result.status, error.result.error) == ("error", "overloaded")


@pytest.mark.parametrize("output", [None, Person])
async def test_turns_that_are_used_up_are_an_error_with_the_run(output: Any) -> None:
    @tool(effect="read")
    def look(at: int) -> str:
        """Look."""
        return str(at)

    calls = [ToolUseBlock("", "look", {"at": number}) for number in range(9)]
    error = await _failed(agent(*calls, tools=[look], limits=Limits(max_turns=3)), output)
    assert "max_turns" in str(error)
    assert (error.result.status, error.result.turns) == ("max_turns", 3)


async def test_a_missing_report_is_an_error_with_the_words_instead() -> None:
    error = await _failed(agent("It is Ada.", "As I said."), Person)
    assert "without a report" in str(error)
    assert (error.result.status, error.result.text, error.result.turns) == ("error", "As I said.", 2)


async def test_a_report_that_never_fits_is_an_error() -> None:
    someone = agent(*[report_back(name=number) for number in range(9)], limits=Limits(max_turns=4))
    assert (await _failed(someone, Person)).result.status == "max_turns"


def test_a_script_gets_the_same_error() -> None:
    with pytest.raises(RunError) as failed:
        outrider.ask("Who?", Person, model=ScriptedModel([ProviderError("overloaded")]))
    assert failed.value.result.error == "overloaded"
    assert isinstance(failed.value, outrider.OutriderError)


@pytest.mark.parametrize("output", [False, {"type": "strnig"}, {"$ref": "http://127.0.0.1:9/x"}, object(), "Person"])
async def test_a_type_that_cannot_be_used_is_refused_before_anybody_is_asked(output: Any) -> None:
    someone = agent("never asked")
    with pytest.raises(SchemaError):
        await someone.ask("Who?", output)
    assert asked_of(someone) == []


# Many at once


async def test_two_hundred_asks_of_one_agent_know_nothing_of_each_other() -> None:
    def answer(request: Request) -> Step:
        number = int(request.messages[0].text)
        parameters = offered(request)
        if number % 3 == 0:
            assert parameters is None
            return Delay(0.001 * (number % 5), f"text {number}")
        assert parameters is not None
        if number % 3 == 1:
            assert "x" in parameters["properties"]
            return Delay(0.001 * (number % 7), report_back(x=number))
        assert parameters["properties"] == {f"field_{number}": {"const": number}}
        if len(request.messages) == 1:
            return report_back(**{f"field_{number + 3}": number + 3})
        return report_back(**{f"field_{number}": number})

    def output(number: int) -> Any:
        own = {"type": "object", "properties": {f"field_{number}": {"const": number}}, "additionalProperties": False}
        return (None, Point, own | {"required": [f"field_{number}"]})[number % 3]

    someone = Agent(model=ScriptedModel(answer))
    answers = await asyncio.gather(*(someone.ask(str(number), output(number)) for number in range(200)))
    for number, given in enumerate(answers):
        assert given == (f"text {number}", Point(number), {f"field_{number}": number})[number % 3]


async def test_asks_share_the_connections_of_their_agent() -> None:
    steps = [Answer("Here."), Answer(calls=(("c1", "report_back", {"x": 1}),))]
    async with ModelServer(steps * 2) as server:
        someone = Agent(model=f"{server.url}/v1#somebody")
        for _ in range(2):
            assert await someone.ask("Where?") == "Here."
            assert await someone.ask("Where?", Point) == Point(1)
        assert server.connections == 1
        assert ["response_format" in request.json for request in server.requests] == [False, True] * 2


# In a notebook


async def test_a_plain_ask_works_in_the_loop_of_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=object))  # type: ignore[arg-type]
    threads: list[int] = []

    def answer(request: Request) -> Step:
        threads.append(threading.get_ident())
        return Delay(0.001, report_back(x=1))

    assert outrider.ask("Where?", Point, model=ScriptedModel(answer)) == Point(1)
    assert threads != [threading.get_ident()]
    with pytest.raises(RunError) as failed:
        outrider.ask("Where?", Point, model=ScriptedModel(["Here.", "There."]))
    assert failed.value.result.text == "There."
    await asyncio.sleep(0)


async def test_a_cancelled_ask_is_cancelled() -> None:
    asking = asyncio.ensure_future(agent(Delay(60, "late")).ask("Who?", Person))
    await asyncio.sleep(0.01)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
