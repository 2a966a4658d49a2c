"""What a session refuses, takes over and lets go between its runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from outrider import Agent, Log, Session
from outrider.conversation.history import History
from outrider.conversation.messages import Message, TextBlock
from outrider.conversation.usage import Usage
from outrider.errors import ConversationError, LogError, ValidationError
from outrider.mcp import StdioServer
from outrider.prompts import prompt
from outrider.runtime.answer_schema import Answer, AnswerSchema
from outrider.runtime.children import Children
from outrider.runtime.context import ContextMeter
from outrider.runtime.events import Event, RunFinished
from outrider.runtime.limits import Limits
from outrider.runtime.steering import Steering
from outrider.runtime.structured_output import NO_TURNS_LEFT, TOOL, Report
from outrider.runtime.titling import Titler
from outrider.testing import ScriptedModel, call
from outrider.tools.context import SubagentTask

PERSON = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def test_a_session_is_opened_with_an_agent_or_an_id(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        with pytest.raises(TypeError, match="a new session needs an agent"):
            Session.open(log)
        with pytest.raises(TypeError, match="id is the id of a session, not 7"):
            Session.open(log, 7)  # type: ignore[arg-type]


def test_a_session_without_a_log_has_no_title_no_snapshots_and_no_rewinds(tmp_path: Path) -> None:
    session = Agent(ScriptedModel([])).session()
    session.rename("A title")  # there is nothing to store it in
    with pytest.raises(LogError, match="a title must not be empty"):
        session.rename("  ")
    folder: Any = object()
    session.use_folder(folder)
    with pytest.raises(ConversationError, match="only a session in a log can be rewound"):
        asyncio.run(session.rewind(1))
    with Log(tmp_path) as log, Session.open(log, agent=Agent(ScriptedModel(["Yes."]))) as logged:
        asyncio.run(logged.run("Hello."))
        with pytest.raises(ConversationError, match="both were switched off"):
            asyncio.run(logged.rewind(1, files=False, conversation=False))


async def test_servers_end_with_the_agent_that_has_them() -> None:
    server = StdioServer("missing", "no-such-program-anywhere")
    session = Agent(ScriptedModel(["Yes."] * 3), mcp=[server]).session()
    toolset = session._loop.model.tools
    first = toolset.servers
    session.agent = session.agent.replace(mcp=[server])
    assert toolset.servers is not None
    assert toolset.servers is not first
    session.agent = session.agent.replace(mcp=())
    assert toolset.servers is None
    assert (await session.run("Hello.")).text == "Yes."


async def test_a_boundary_waits_for_a_message_that_is_being_stored() -> None:
    steering, stored = Steering(Agent(ScriptedModel([])).session()._record), asyncio.Event()

    async def making() -> Message:
        await stored.wait()
        return Message.user("more")

    adding = asyncio.ensure_future(steering.add(making()))
    await asyncio.sleep(0)
    withdrawing = asyncio.ensure_future(steering.withdraw())
    await asyncio.sleep(0)
    stored.set()
    assert await withdrawing == await adding


def test_a_titler_that_was_closed_makes_no_title() -> None:
    session = Agent(ScriptedModel(["Yes."])).session()
    asked: list[Any] = []
    titler = Titler(session, lambda provider: asked.append(provider))
    session.observe(titler)
    titler.close()
    asyncio.run(session.run("Hello."))
    assert asked == []


def test_a_sub_agent_of_a_call_that_is_over_is_not_shown() -> None:
    seen: list[Event] = []
    session = Agent(ScriptedModel([])).session(observer=seen.append)
    task = SubagentTask("c1", "a" * 32, "Look", is_over=lambda: True)
    Children(session._record).announce(task, "a" * 32, session.agent)
    assert seen == []


def test_the_context_of_a_session_that_is_not_loaded_is_what_its_newest_reply_used() -> None:
    def earlier() -> list[Message]:
        raise AssertionError("nothing should be loaded")

    reply, meter = Message.assistant("Yes."), ContextMeter()
    history = History([reply], earlier=earlier)
    meter.measure(reply, Usage(100, 10))
    assert meter.tokens(history, 5) == 110


def test_an_answer_may_follow_a_comment_and_has_so_many_corrections() -> None:
    def parse(text: str) -> Answer:
        if text != "7":
            raise ValidationError(["no number"])
        return Answer(7, text)

    schema = AnswerSchema({"type": "object"}, parse)
    assert schema.read(Message.assistant(TextBlock("Here it is:"), TextBlock("7"))).data == 7
    wrong = Message.assistant("seven")
    correction = Message.user(prompt("output_correction"))
    assert schema.correction([wrong])
    assert schema.correction([correction, wrong] * 9) == ""


async def test_only_the_report_is_left_to_a_server_that_decodes_by_schemas() -> None:
    class Decoding(ScriptedModel):
        decodes_schemas = True

    model = Decoding(["Ada.", call(TOOL, name="Ada")])
    report = Report(PERSON)
    result = await Agent(model).session().run("Who is it?", output=report)
    assert result.structured_output == {"name": "Ada"}
    assert [request.settings.tool_choice for request in model.requests] == [None, TOOL]


async def test_a_run_that_took_all_of_its_time_is_not_reminded(monkeypatch: pytest.MonkeyPatch) -> None:
    model, report = ScriptedModel(["Ada."]), Report(PERSON)
    session = Agent(model, limits=Limits(max_seconds=1_000)).session()
    loop = asyncio.get_running_loop()
    now, passed = loop.time, 0.0
    monkeypatch.setattr(loop, "time", lambda: now() + passed)

    def pass_time(event: Event) -> None:
        nonlocal passed
        if isinstance(event, RunFinished):
            passed = 2_000.0

    session.observe(pass_time)
    result = await session.run("Who is it?", output=report)
    assert (result.status, result.error, len(model.requests)) == ("max_seconds", NO_TURNS_LEFT, 1)
