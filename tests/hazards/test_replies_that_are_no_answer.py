"""Hazard: a reply that is no answer. A refused call, a pause, nothing at all: the run goes on, within bounds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from outrider import Agent, Limits, Message, Session
from outrider.conversation.history import violations
from outrider.providers.adapters.anthropic import Anthropic
from outrider.providers.adapters.openai_chat import OpenAIChat
from outrider.providers.base import Reply, StopReason
from outrider.runtime.step import MAX_PAUSES
from outrider.testing import ScriptedModel, call
from tests.modelserver import ModelServer, Raw, Status
from tests.streams import Answer

# A call that the server refused, as Groq does

WRITTEN = '<function=read{"path": "a.txt"}</function>'
REFUSED = {
    "message": "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.",
    "type": "invalid_request_error",
    "code": "tool_use_failed",
    "failed_generation": WRITTEN,
}
BODY = msgspec.json.encode({"error": REFUSED})
CHUNK = {"choices": [{"index": 0, "delta": {"content": "I'll look."}, "finish_reason": None}]}
IN_STREAM = b"data: %b\n\ndata: %b\n\n" % (msgspec.json.encode(CHUNK), BODY)


def read(path: str) -> str:
    "Read a file."
    return f"text of {path}"


@pytest.mark.parametrize(("step", "said"), [(Status(400, body=BODY), ""), (Raw(IN_STREAM), "I'll look.")])
async def test_the_model_gets_a_call_back_that_the_server_refused(step: Any, said: str) -> None:
    async with ModelServer([step, Answer("I see.")]) as server:
        model = OpenAIChat("llama-3.3-70b", base_url=server.url, api_key="k")
        session = Session(Agent(model, tools=[read]))
        result = await session.run("go")
        assert (result.status, result.text, result.turns) == ("done", "I see.", 2)
        _, reply, results, _ = session.messages
        assert (reply.text, [use.name for use in reply.tool_calls]) == (said, ["read"])
        assert results.tool_results[0].is_error
        assert WRITTEN in results.tool_results[0].text
        assert violations(session.history.sendable()) == []
        assert WRITTEN in server.requests[1].json["messages"][-1]["content"]


@pytest.mark.parametrize(
    ("error", "name"),
    [
        ({"message": "attempted to call tool 'reed' which was not in request.tools"}, "reed"),
        ({"failed_generation": '{"name": "read", "arguments": {"pfad": 1}}'}, "read"),
        ({"failed_generation": '{"path": "a.txt"}'}, "invalid_call"),
        ({}, "invalid_call"),
    ],
)
async def test_a_refused_call_never_runs_whatever_was_written(error: dict[str, Any], name: str) -> None:
    body = msgspec.json.encode({"error": error | {"code": "tool_use_failed"}})
    async with ModelServer([Status(400, body=body), Answer("I see.")]) as server:
        session = Session(Agent(OpenAIChat("m", base_url=server.url, api_key="k"), tools=[read]))
        assert (await session.run("go")).status == "done"
        assert [use.name for use in session.messages[1].tool_calls] == [name]
        assert session.messages[2].tool_results[0].is_error


async def test_refused_calls_without_end_reach_a_limit() -> None:
    async with ModelServer([Status(400, body=BODY)] * 30) as server:
        agent = Agent(OpenAIChat("m", base_url=server.url, api_key="k"), tools=[read], limits=Limits(max_repeats=3))
        assert (await Session(agent).run("go")).status == "max_repeats"


# A pause

SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [{"type": "web_search_result", "url": "https://a.example", "title": "A", "encrypted_content": "c2Vj"}],
}


def arguments(piece: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": piece}}


def paused() -> Raw:
    """A reply of blocks that the API itself made, which it wants to continue."""
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": SEARCH},
        arguments('{"query": '),
        arguments('"a"}'),
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": FOUND},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "pause_turn"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]
    return Raw(b"".join(b"data: %b\n\n" % msgspec.json.encode(event) for event in events))


async def test_a_pause_is_continued_with_the_blocks_of_the_api_in_one_turn() -> None:
    async with ModelServer([paused(), paused(), Answer("A it is.")]) as server:
        session = Session(Agent(Anthropic("claude-sonnet-4-5", base_url=server.url, api_key="k")))
        result = await session.run("Search.")
        assert (result.status, result.text, result.turns) == ("done", "A it is.", 1)
        asked = SEARCH | {"input": {"query": "a"}}
        first, second = (request.json["messages"] for request in server.requests[1:])
        assert [message["role"] for message in second] == ["user", "assistant"]
        assert [without_marks(block) for block in first[1]["content"]] == [asked, FOUND]
        assert [without_marks(block) for block in second[1]["content"]] == [asked, FOUND] * 2


def without_marks(block: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name != "cache_control"}


async def test_pauses_without_end_are_an_error() -> None:
    model = ScriptedModel(lambda request: Reply(Message("assistant", ()), StopReason.PAUSE))
    result = await Session(Agent(model)).run("go")
    assert (result.status, len(model.requests), result.turns) == ("error", MAX_PAUSES, 1)
    assert "paused its reply" in result.error


# Nothing


def fails() -> str:
    "Fail."
    raise RuntimeError("no such thing")


EMPTY = Reply(Message("assistant", ()))


async def test_an_empty_reply_after_a_failed_call_is_asked_for_once_more() -> None:
    model = ScriptedModel([call("fails"), EMPTY, "It failed."])
    result = await Session(Agent(model, tools=[fails])).run("go")
    assert (result.status, result.text) == ("done", "It failed.")
    assert "reply was empty" in model.requests[2].reminder
    assert model.requests[2].messages[-1].role == "user"


async def test_two_empty_replies_after_a_failed_call_are_an_error_that_says_so() -> None:
    session = Session(Agent(ScriptedModel([call("fails"), EMPTY, EMPTY]), tools=[fails]))
    result = await session.run("go")
    assert (result.status, result.text) == ("error", "")
    assert "nothing, twice" in result.error
    assert violations(session.history.sendable()) == []


@pytest.mark.parametrize(
    "steps",
    [
        [EMPTY],
        [call("works"), EMPTY, EMPTY],
        [call("fails"), Reply(Message("assistant", ()), StopReason.REFUSAL)],
        [call("fails"), Reply(Message("assistant", ()), StopReason.MAX_TOKENS)],
    ],
)
async def test_other_empty_replies_end_the_run_as_they_did(steps: list[Any]) -> None:
    def works() -> str:
        "Work."
        return "ok"

    model = ScriptedModel(steps)
    assert (await Session(Agent(model, tools=[fails, works])).run("go")).status == "done"
    assert len(model.requests) == len(steps)
