"""Answers that an API holds to a schema: read, validated, corrected, resumed, and the tool where that is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outrider.errors import RunError
from outrider.log.log import Log
from outrider.prompts import prompt
from outrider.providers.api import ApiProvider
from outrider.runtime.agent import Agent
from outrider.runtime.events import Event, RunFinished, SubagentEvent, ToolFinished
from outrider.runtime.limits import Limits
from outrider.runtime.session import Session
from outrider.runtime.structured_output import MISSING, Report
from outrider.subagents import Profile, with_subagents
from outrider.tools.tool import tool
from tests.adapters import ONE_EACH, Case, each
from tests.modelserver import ModelServer, Status
from tests.streams import Answer
from tests.subagents.reporting import answers


class Person(msgspec.Struct):
    name: str
    age: int = 7
    tags: list[str] = []


ADA = '{"name": "Ada", "age": null, "tags": ["poet"]}'
AGED: dict[str, Any] = {
    "type": "object",
    "properties": {"age": {"type": "integer", "minimum": 0}},
    "required": ["age"],
    "additionalProperties": False,
}
CLAUDE = ONE_EACH[0]


@tool(effect="read")
def look(place: str) -> str:
    """Look."""
    return f"It is sunny in {place}."


def agent(case: Case, server: ModelServer, **more: Any) -> Agent:
    model: ApiProvider = case.adapter(server.url, key="k")
    if case.prefix == "openai-chat":
        model.is_openai = True  # type: ignore[attr-defined]  # as at OpenAI: no calls are read from text
    return Agent(model, **more)


def tools_in(server: ModelServer) -> list[bool]:
    """Whether each request offers the tool for reports."""
    return [b"report_back" in request.body for request in server.requests]


@each(*ONE_EACH)
async def test_the_answer_is_the_data(case: Case) -> None:
    async with ModelServer([Answer("", (("c1", "look", {"place": "Bern"}),)), Answer(ADA)]) as server:
        found = await agent(case, server, tools=[look]).ask("Who?", Person)
    assert found == Person("Ada", 7, ["poet"])
    assert tools_in(server) == [False, False]
    first, second = (json.loads(request.body) for request in server.requests)
    for name in ("output_config", "text", "response_format", "generationConfig", "tools", "system", "instructions"):
        assert first.get(name) == second.get(name)  # the prompt cache holds


async def test_data_that_is_no_object_is_wrapped() -> None:
    async with ModelServer([Answer('{"result": [1, 2]}')]) as server:
        assert await agent(CLAUDE, server).ask("Which?", list[int]) == [1, 2]


async def test_the_events_have_the_data() -> None:
    ended: list[RunFinished] = []
    async with ModelServer([Answer(ADA)]) as server:
        report = Report(Person)
        session = agent(CLAUDE, server).session(
            observer=lambda event: ended.append(event) if isinstance(event, RunFinished) else None
        )
        result = await session.run("Who?", output=report)
    assert (result.status, result.text) == ("done", '{"name":"Ada","tags":["poet"]}')
    assert result.structured_output == ended[0].structured_output == {"name": "Ada", "tags": ["poet"]}
    assert ended[0].has_structured_output


@pytest.mark.parametrize("is_loaded", [True, False])
async def test_the_data_is_there_until_more_is_said(is_loaded: bool, tmp_path: Path) -> None:
    async with ModelServer([Answer("Hello."), Answer('{"age": 36}'), Answer("Yes.")]) as server:
        with Log(tmp_path) as log, Session.open(log, agent=agent(CLAUDE, server)) as session:
            await session.run("Hello!")
            first = await session.run("How old?", output=AGED)
            if is_loaded:
                session.close()
                session = Session.open(log, session.id, agent(CLAUDE, server)).now()
            again = await session.run()
            assert (again.status, again.turns, again.text) == ("done", 0, '{"age":36}')
            assert again.structured_output == first.structured_output == {"age": 36}
            assert again.has_structured_output
            await session.rewind(2)
            before = await session.run()
            assert (before.text, before.has_structured_output) == ("Hello.", False)
            await session.undo_rewind()
            assert not (await session.run("Sure?")).has_structured_output
            session.close()


async def test_a_value_outside_of_its_limits_is_corrected() -> None:
    async with ModelServer([Answer('{"age": -1}'), Answer('{"age": 36}')]) as server:
        assert await agent(CLAUDE, server).ask("How old?", AGED) == {"age": 36}
    said = json.loads(server.requests[1].body)["messages"][-1]["content"][0]["text"]
    assert said.startswith("Your answer does not have the required form:\n- age: ")


@pytest.mark.parametrize("text", ['{"age": -1}', "I do not know.", '{"age": ', "[]", '{"age": NaN}', ""])
async def test_an_answer_that_stays_wrong_is_an_error(text: str) -> None:
    async with ModelServer([Answer(text)] * 9) as server:
        with pytest.raises(RunError) as caught:
            await agent(CLAUDE, server).ask("How old?", AGED)
    error = caught.value.result.error
    if text:
        assert error.startswith("the report was rejected: ")
        assert error.endswith(text.strip())
    else:
        assert error == MISSING
    assert len(server.requests) == 3


async def test_the_last_turn_says_so_and_limits_hold() -> None:
    async with ModelServer([Answer('{"age": -1}')] * 9) as server:
        report = Report(AGED)
        limited = agent(CLAUDE, server, limits=Limits(max_turns=1))
        result = await limited.session().run("How old?", output=report)
    assert (result.status, len(server.requests)) == ("max_turns", 1)
    assert "the report was rejected: age: " in result.error
    assert result.error.endswith('{"age": -1}')
    assert prompt("output_final_turn") in server.requests[0].json["messages"][-1]["content"][0]["text"]


async def test_a_schema_that_the_api_refuses_becomes_the_tool() -> None:
    refusal = Status(400, body=b'{"error": {"message": "output_config.format: Extra inputs are not permitted"}}')
    reported = Answer("", (("c1", "report_back", {"age": 36}),))
    async with ModelServer([refusal, reported]) as server:
        assert await agent(CLAUDE, server).ask("How old?", AGED) == {"age": 36}
    assert tools_in(server) == [False, True]
    assert "output_config" not in server.requests[1].json


async def test_another_refusal_is_not_retried() -> None:
    async with ModelServer([Status(400, body=b'{"error": {"message": "your credit is too low"}}')] * 2) as server:
        with pytest.raises(RunError, match="credit"):
            await agent(CLAUDE, server).ask("How old?", AGED)
    assert len(server.requests) == 1


async def test_a_schema_that_the_api_cannot_express_uses_the_tool() -> None:
    async with ModelServer([Answer("", (("c1", "report_back", {"a": 1, "b": 2}),))]) as server:
        assert await agent(CLAUDE, server).ask("What?", dict[str, int]) == {"a": 1, "b": 2}
    assert tools_in(server) == [True]


@pytest.mark.parametrize("steps", [[Answer(ADA)], [Answer("Hm."), Answer(ADA)]])
async def test_a_session_that_stopped_goes_on(steps: list[Answer], tmp_path: Path) -> None:
    """A process that is killed after a reply leaves the log as it is after that reply."""
    with Log(tmp_path) as log:
        async with ModelServer(steps) as server:
            session = Session.open(log, agent=agent(CLAUDE, server)).now()
            await session.think("Who?")  # the answer is stored, and is not read
            session.close()
            reopened = Session.open(log, session.id, agent(CLAUDE, server)).now()
            result = await reopened.run(output=Person)
            reopened.close()
    assert (result.status, result.output) == ("done", Person("Ada", 7, ["poet"]))
    assert len(server.requests) == len(steps)


async def test_a_sub_agent_answers_with_data(tmp_path: Path) -> None:
    clerk = Profile(name="Clerk", description="Does what it is told.")
    task = {"description": "ask", "prompt": "Who?", "subagent_type": "Clerk", "output_schema": AGED}
    steps = [Answer("", (("c1", "Task", task),)), Answer('{"age": 36}'), Answer("It is 36.")]
    seen: list[Event] = []
    async with ModelServer(steps) as server:
        team = with_subagents(agent(CLAUDE, server, tools=[look]), [clerk])
        with Log(tmp_path) as log, Session.open(log, agent=team, observer=seen.append) as session:
            result = await session.run("go")
            (finished,) = [event for event in seen if isinstance(event, ToolFinished)]
            (stored,) = answers(log, session.id)
            with Session.open(log, finished.details["session"], agent(CLAUDE, server)) as child:
                again = await child.run()
    assert result.text == "It is 36."
    (inner,) = [e.event for e in seen if isinstance(e, SubagentEvent) and isinstance(e.event, RunFinished)]
    assert inner.structured_output == finished.details["structured_output"] == {"age": 36}
    assert stored.details == finished.details
    assert (again.structured_output, again.has_structured_output) == ({"age": 36}, True)
    assert tools_in(server) == [False, False, False]
    assert server.requests[1].json["output_config"]["format"]["schema"]["required"] == ["age"]
    answered = server.requests[2].json["messages"][-1]["content"][0]
    assert answered["content"][0]["text"] == '{"age":36}'
