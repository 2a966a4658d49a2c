"""`run(output=T)`: a run that ends with a value of a type. What the model is told is in test_structured_output.py."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest

from outrider import Agent, Limits, Log, RunError, Session, run
from outrider.errors import SessionBusyError
from outrider.events import RunFinished
from outrider.testing import ScriptedModel, call


@dataclass
class Person:
    name: str
    age: int


ADA = call("report_back", name="Ada", age=36)


def offered(model: ScriptedModel) -> list[list[str]]:
    """The tools of each request."""
    return [[tool.name for tool in request.tools] for request in model.requests]


async def test_a_session_returns_data_from_the_run_that_asks_for_it() -> None:
    model = ScriptedModel(["Hello.", ADA, "Bye."])
    session = Agent(model).session()
    assert (await session.run("Hello")).output == "Hello."
    result = await session.run("Who is it?", output=Person)
    assert (result.status, result.output) == ("done", Person("Ada", 36))
    assert result.structured_output == {"name": "Ada", "age": 36}
    assert (await session.run("Bye")).output == "Bye."
    assert offered(model) == [[], ["report_back"], []]
    assert session.agent.tools == ()


async def test_runs_of_one_session_return_different_types() -> None:
    session = Agent(ScriptedModel([ADA, call("report_back", result=[1, 2])])).session()
    assert (await session.run("Who?", output=Person)).output.age == 36
    assert (await session.run("Which?", output=list[int])).output == [1, 2]


async def test_an_agent_returns_data() -> None:
    agent = Agent(ScriptedModel([ADA, ADA]))
    assert (await agent.run("Who?", output=Person)).output == Person("Ada", 36)
    assert await agent.ask("Who?", Person) == Person("Ada", 36)


def test_a_script_returns_data() -> None:
    assert run("Who?", output=Person, model=ScriptedModel([ADA])).output == Person("Ada", 36)


def test_the_output_for_a_json_schema_is_decoded_json() -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    assert run("Who?", output=schema, model=ScriptedModel([ADA])).output == {"name": "Ada", "age": 36}


@pytest.mark.parametrize("output", [None, Person])
async def test_the_output_of_a_run_without_an_answer_raises(output: type[Person] | None) -> None:
    agent = Agent(ScriptedModel([call("no_such_tool")] * 3), limits=Limits(max_turns=1))
    result = await agent.run("Who?", output=output)
    assert result.status == "max_turns"
    with pytest.raises(RunError, match=r"Limits\(max_turns") as raised:
        print(result.output)
    assert raised.value.result is result


async def test_null_is_an_output() -> None:
    agent = Agent(ScriptedModel([call("report_back", result=None)]))
    assert (await agent.run("Who?", output=type(None))).output is None


async def test_the_items_of_a_result_are_json() -> None:
    result = await Agent(ScriptedModel([ADA])).run("Who?", output=Person)
    assert "value" not in dict(result)
    assert (result["output"], result["structured_output"]) == ({"name": "Ada", "age": 36},) * 2


async def test_a_run_that_was_killed_goes_on_to_its_output(tmp_path: Path) -> None:
    """A process that is killed after a reply leaves the log as it is after that reply."""
    with Log(tmp_path) as log:
        async with Session.open(log, agent=Agent(ScriptedModel([ADA]))) as session:
            await session.think("Who?")
        async with Session.open(log, session.id, Agent(ScriptedModel([]))) as session:
            assert (await session.run(output=Person)).output == Person("Ada", 36)
        async with Session.open(log, session.id, Agent(ScriptedModel([]))) as session:
            assert (await session.run(output=Person)).output == Person("Ada", 36)


async def test_the_log_does_not_name_the_report_as_a_tool_of_the_session(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        async with Session.open(log, agent=Agent(ScriptedModel([ADA]))) as session:
            await session.run("Who?", output=Person)
        assert not log.settings(session.id).tools


async def test_a_stream_ends_with_the_data() -> None:
    events = [event async for event in Agent(ScriptedModel([ADA])).stream("Who?", output=Person)]
    assert isinstance(end := events[-1], RunFinished)
    assert end.structured_output == {"name": "Ada", "age": 36}


async def test_a_session_that_works_on_its_output_is_busy() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        """Wait."""
        begun.set()
        await may_end.wait()
        return "over"

    session = Agent(ScriptedModel([call("wait"), ADA]), tools=[wait]).session()
    running = asyncio.ensure_future(session.run("Who?", output=Person))
    await begun.wait()
    for again in (session.run("Hello"), session.run("Who?", output=list[int]), session.think("Hello", effort="low")):
        with pytest.raises(SessionBusyError):
            await again
    with pytest.raises(SessionBusyError):
        session.agent = Agent("demo")
    may_end.set()
    assert (await running).output == Person("Ada", 36)
