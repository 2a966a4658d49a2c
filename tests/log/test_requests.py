"""The log knows the exact request of every turn, and repeats nothing that has not changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from outrider import tool
from outrider.coding.stored_request import session_request
from outrider.conversation.store import MemoryStore
from outrider.log.entries import MessageEntry, Record, Requested
from outrider.log.log import Log
from outrider.log.requests import RequestLedger, restored
from outrider.log.transfer import export, import_session
from outrider.providers.base import ModelSettings, Request, ToolSpec
from outrider.runtime.agent import Agent
from outrider.runtime.limits import Limits
from outrider.runtime.session import Session
from outrider.testing import ScriptedModel, call
from outrider.tools.server_tool import ServerTool, web_search
from tests.adapters import ONE_EACH, Case, each
from tests.modelserver import ModelServer
from tests.streams import Answer

LOOKING = Answer(calls=(("c1", "look_up", {"word": "one"}),))


@tool
def look_up(word: str, *, exactly: bool = False) -> str:
    """Look a word up in the house's own dictionary.

    Args:
        word: The word.
        exactly: Whether its case counts.
    """
    return f"{word}, {exactly}"


@pytest.fixture
def log(place: str) -> Iterator[Log]:
    with Log(place) as log:
        yield log


def replies(log: Log, id: str) -> list[Record]:
    return [each for each in log.records(id) if isinstance(each.entry, MessageEntry) and each.entry.model]


def told(log: Log, id: str) -> list[Requested]:
    return [each.entry for each in log.records(id) if isinstance(each.entry, Requested)]


@each(*ONE_EACH)
async def test_the_request_of_every_turn_is_that_which_was_sent(log: Log, case: Case) -> None:
    """With an own tool, options, a first turn that must call, and a reminder in the last turn."""
    async with ModelServer([LOOKING, LOOKING, Answer("Done."), Answer("Again.")]) as server:
        agent = Agent(
            model=case.adapter(server.url, key="k"),
            system="You are a librarian.",
            tools=[look_up],
            max_tokens=2_000,
            tool_choice="required",
            options={"metadata": {"house": "ours"}},
            limits=Limits(max_turns=3),
        )
        with Session.open(log, agent=agent) as session:
            await session.run("What is one?")
        with Session.open(log, session.id, agent.replace(system="You are a cook.", tools=[])) as session:
            await session.run("And two?")
        found = replies(log, session.id)
        assert len(server.requests) == len(found) == 4
        for sent, record in zip(server.requests, found, strict=True):
            provider: Any = agent.provider
            request = session_request(log, session.id, provider.name, reply=record.seq)
            assert msgspec.json.decode(provider.render(request)) == sent.json
        assert b"librarian" not in server.requests[3].body
        assert b"look_up" in server.requests[0].body


async def test_what_has_not_changed_is_not_written_again(log: Log) -> None:
    model = ScriptedModel([call("look_up", word="a"), call("look_up", word="b"), "ok", "ok", "ok"])
    agent = Agent(model=model, system="Be brief.", tools=[look_up])
    with Session.open(log, agent=agent) as session:
        await session.run("go")
        await session.run("on")
    assert len(told(log, session.id)) == 1
    with Session.open(log, session.id, agent) as session:
        await session.run("and on")
    assert len(told(log, session.id)) == 1, "a process that comes later reads it"


async def test_an_export_keeps_it(log: Log) -> None:
    with Session.open(log, agent=Agent(model=ScriptedModel(["ok"]), tools=[look_up])) as session:
        await session.run("go")
    copy = import_session(log, list(export(log, session.id))).id
    assert log.requested(copy) == log.requested(session.id)
    assert copy != session.id


def test_keys_in_options_are_not_written() -> None:
    options = {
        "mcp_servers": [{"url": "https://example.com", "authorization_token": "hunter2"}],
        "headers": {"X-Api-Key": "hunter2", "Cookie": "hunter2"},
        "note": "sk-ant-REDACTED",
        "max_tokens": 7,
    }
    settings, served = ModelSettings(options=options), web_search(options={"access_token": "hunter2"})
    entry = RequestLedger().new_in(Request([], MemoryStore(), settings=settings, server_tools=(served,)), None)
    assert entry
    written = msgspec.json.encode(entry)
    assert b"hunter2" not in written
    assert b"sk-ant" not in written
    assert b'"max_tokens":7' in written


def test_a_request_comes_back_as_it_was() -> None:
    spec = ToolSpec("a", "Does.", {"type": "object"}, is_answer=True, deferred="server")
    request = Request(
        *([], MemoryStore(), "s", (spec,), "now"),
        settings=ModelSettings(effort="low", temperature=0.0, tool_choice="a", options={"x": [1]}),
        output_schema={"type": "object"},
        server_tools=(ServerTool(name="web_fetch", allowed_domains=("python.org",), max_uses=2),),
    )
    entry = RequestLedger().new_in(request, None)
    assert entry
    assert restored(entry, [], request.store) == request


@pytest.mark.parametrize(
    "told",
    [Requested(), Requested("s", ()), Requested("s", (), (), {"temperature": 99}), Requested("s", (), ({},), {})],
)
def test_a_log_that_does_not_say_it_all_is_not_believed(told: Requested) -> None:
    assert restored(told, [], MemoryStore()) is None
