"""An agent and its verbs, its settings and dependencies, and its part in a session."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outrider import Agent, Deny, Limits, Log, RunError, Session, ToolContext, tool
from outrider.errors import SessionBusyError, UnknownModelError
from outrider.providers.adapters.anthropic import Anthropic
from outrider.providers.adapters.gemini import Gemini
from outrider.providers.adapters.openai_chat import OpenAIChat
from outrider.providers.adapters.openai_responses import OpenAIResponses
from outrider.providers.base import ModelSettings, Request, ToolSpec
from outrider.runtime.events import RunFinished, TextDelta
from outrider.testing import Delay, ScriptedModel, call


class Weather(msgspec.Struct):
    """A report."""

    degrees: int


@tool(effect="read")
def look(place: str) -> str:
    """Look at a place."""
    return f"{place}: sunny"


def scripted(*steps: Any, **options: Any) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(list(steps))
    return Agent(model, tools=[look], **options), model


async def test_run_returns_the_result_of_a_session_of_its_own() -> None:
    agent, _ = scripted(call("look", place="Bern"), "Sunny.", "Again.")
    first = await agent.run("How is it?")
    assert (first.status, first.text, first.turns) == ("done", "Sunny.", 2)
    assert len((await agent.run("And now?")).conversation) == 2, "nothing of the first conversation"


async def test_stream_yields_the_events_and_ends_with_the_run() -> None:
    agent, _ = scripted("Hello.")
    events = [event async for event in agent.stream("Hi")]
    assert TextDelta("Hello.") in events
    assert isinstance(events[-1], RunFinished)


async def test_leaving_a_stream_early_cancels_the_run() -> None:
    agent, _ = scripted(Delay(60, "Never."))
    stream = agent.stream("Hi")
    await anext(stream)
    await asyncio.wait_for(stream.aclose(), 60)


async def test_a_session_goes_on() -> None:
    agent, model = scripted("One.", "Two.")
    session = agent.session()
    await session.run("First")
    await session.run("Second")
    assert len(model.requests[1].messages) == 3


async def test_every_verb_takes_an_approver() -> None:
    def never(*_: object) -> Deny:
        return Deny("not today")

    agent, model = scripted(*[call("look", place="Bern"), "Then not."] * 3)
    await agent.run("go", approve=never)
    await agent.ask("go", approve=never)
    assert [event async for event in agent.stream("go", approve=never)]
    for request in model.requests[1::2]:
        assert "look was not run: not today" in request.messages[-1].tool_results[0].text


async def test_ask_raises_what_raise_for_status_raises() -> None:
    agent, _ = scripted(*[call("look", place=str(n)) for n in range(4)], limits=Limits(max_turns=2))
    with pytest.raises(
        RunError, match=r"ended without an answer \(max_turns\); allow more with Limits\(max_turns=…\)"
    ) as caught:
        await agent.ask("go")
    assert caught.value.result.turns == 2
    result = await scripted(call("look", place="a"), "x", limits=Limits(max_turns=1))[0].run("go")
    with pytest.raises(RunError, match="max_turns"):
        result.raise_for_status()
    done = await scripted("Fine.")[0].run("go")
    assert done.raise_for_status() is done


async def test_ask_with_a_type_gives_a_value_of_it() -> None:
    agent, _ = scripted(call("report_back", degrees=21))
    assert await agent.ask("How warm?", Weather) == Weather(21)


# Dependencies


class Database:
    def __init__(self) -> None:
        self.asked: list[str] = []


@tool(effect="read")
def lookup(name: str, context: ToolContext[Database]) -> str:
    """Look a name up."""
    context.deps.asked.append(name)
    return "found"


async def test_tools_receive_the_dependencies_of_their_agent() -> None:
    database = Database()
    agent = Agent(ScriptedModel([call("lookup", name="Ada"), "Done."]), tools=[lookup], deps_type=Database)
    assert "context" not in agent.tools[0].parameters["properties"]
    await agent.run("go", deps=database)
    assert database.asked == ["Ada"]


# Settings

SETTINGS = ModelSettings("high", 0.5, 1000, "look")
EXPECTED: dict[type, dict[str, Any]] = {
    Anthropic: {
        "output_config": {"effort": "high"},
        "max_tokens": 1000,
        "tool_choice": {"type": "tool", "name": "look"},
    },
    OpenAIResponses: {
        "reasoning": {"effort": "high"},
        "max_output_tokens": 1000,
        "tool_choice": {"type": "function", "name": "look"},
    },
    OpenAIChat: {
        "reasoning_effort": "high",
        "max_completion_tokens": 1000,
        "tool_choice": {"type": "function", "function": {"name": "look"}},
    },
    Gemini: {
        "generationConfig": {
            "maxOutputTokens": 1000,
            "temperature": 0.5,
            "thinkingConfig": {"thinkingLevel": "high", "includeThoughts": True},
        },
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look"]}},
    },
}
MODELS = {Anthropic: "claude-sonnet-5-5", OpenAIResponses: "gpt-6.1", OpenAIChat: "gpt-6.1", Gemini: "gemini-4"}


def body(adapter: type, settings: ModelSettings) -> dict[str, Any]:
    session = Session(Agent("demo"), [{"role": "user", "content": "Hi"}])
    spec = ToolSpec(look.name, look.description, look.parameters)
    request = Request(session.history.sendable(), session.store, tools=(spec,), settings=settings)
    decoded: dict[str, Any] = msgspec.json.decode(adapter(MODELS[adapter]).render(request))
    return decoded


@pytest.mark.parametrize("adapter", EXPECTED)
def test_each_api_gets_the_settings_in_its_own_fields(adapter: type) -> None:
    sent = body(adapter, SETTINGS)
    assert {name: sent[name] for name in EXPECTED[adapter]} == EXPECTED[adapter]
    assert "temperature" not in sent, "the newest models refuse it"
    plain = body(adapter, ModelSettings())
    assert not {"temperature", "tool_choice", "toolConfig", "reasoning", "reasoning_effort"} & plain.keys()


@pytest.mark.parametrize("adapter", EXPECTED)
def test_options_go_into_the_body_as_they_are_and_win(adapter: type) -> None:
    assert body(adapter, ModelSettings(temperature=1, options={"temperature": 0.1, "seed": 7}))["seed"] == 7


async def test_a_tool_must_be_called_in_the_first_request_of_a_run_only() -> None:
    agent, model = scripted(call("look", place="Bern"), "Sunny.", "Hello.", tool_choice="required", effort="low")
    session = agent.session()
    await session.run("go")
    await session.run("again")
    choices = [request.settings.tool_choice for request in model.requests]
    assert choices == ["required", None, "required"]
    assert {request.settings.effort for request in model.requests} == {"low"}


@pytest.mark.parametrize(
    "wrong",
    [{"effort": "huge"}, {"temperature": 3}, {"max_tokens": 0}, {"tool_choice": "nothing"}],
)
def test_a_setting_that_cannot_be_is_refused_when_the_agent_is_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Agent("demo", **wrong)


# Another agent in the same session


async def test_assigning_an_agent_changes_model_tools_prompt_and_limits_together(tmp_path: Path) -> None:
    first, _ = scripted("One.")
    model = ScriptedModel([call("lookup", name="Ada"), "Two."])
    database = Database()
    second = Agent(model, system="Be brief.", tools=[lookup], deps_type=Database, limits=Limits(max_turns=2))
    with Log(tmp_path) as log:
        opened: Session[Any] = await Session.open(log, agent=first)
        async with opened as session:
            await session.run("First")
            session.agent = second
            result = await session.run("Second", deps=database)
            assert (result.status, result.text, database.asked) == ("done", "Two.", ["Ada"])
        assert model.requests[0].system == "Be brief."
        assert [spec.name for spec in model.requests[0].tools] == ["lookup"]
        assert log.settings(session.id).system == "Be brief."


async def test_an_agent_that_cannot_be_used_changes_nothing() -> None:
    agent, _ = scripted("One.")
    session = agent.session()
    with pytest.raises(UnknownModelError):
        session.agent = Agent("no-such/model")
    with pytest.raises(TypeError, match="Agent"):
        session.agent = "demo"  # type: ignore[assignment]
    assert session.agent is agent
    assert (await session.run("Hi")).text == "One."


async def test_an_agent_is_not_changed_in_the_middle_of_a_run() -> None:
    agent, _ = scripted(Delay(30, "Late."))
    session = agent.session()
    running = asyncio.ensure_future(session.run("Hi"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    with pytest.raises(SessionBusyError, match="between two runs"):
        session.agent = agent.replace(system="Other.")
    session.cancel()
    assert (await running).status == "cancelled"


# Opening


async def test_a_session_is_opened_and_closed_beside_the_loop(tmp_path: Path) -> None:
    agent, _ = scripted("One.", "Two.")
    with Log(tmp_path) as log:
        async with Session.open(log, agent=agent) as session:
            await session.run("First")
        again = await Session.open(log, session.id, agent)
        assert len(again.messages) == 2
        await again.aclose()
        with Session.open(log, session.id, agent) as once_more:
            assert len(once_more.messages) == 2


async def _cancelled_while_opening(log: Log, id: str, agent: Agent) -> None:
    """Begin to open a session, cancel that, and return when the thread that opens it has ended."""
    opening = asyncio.ensure_future(_wait_for(Session.open(log, id, agent)))
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    async with asyncio.timeout(60):
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0)  # what is called when it has ended


async def test_a_session_whose_opener_was_cancelled_is_released(tmp_path: Path) -> None:
    agent, _ = scripted("One.")
    with Log(tmp_path) as log:
        async with Session.open(log, agent=agent) as session:
            await session.run("First")
        await _cancelled_while_opening(log, session.id, agent)
        assert log.session(session.id).holder is None
        (await Session.open(log, session.id, agent)).close()


async def test_an_opening_that_fails_after_its_opener_was_cancelled_disturbs_nobody(tmp_path: Path) -> None:
    agent, _ = scripted("One.")
    heard: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: heard.append(context))
    with Log(tmp_path) as log:
        await _cancelled_while_opening(log, "0" * 32, agent)
    gc.collect()
    await asyncio.sleep(0)
    assert heard == []


async def _wait_for(opening: Any) -> Session:
    session: Session = await opening
    return session
