"""State of vendors with a Chat Completions API: it goes back to the model that made it, and to no other."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from outrider.conversation.messages import Message, TextBlock, ThinkingBlock, ToolResultBlock
from outrider.conversation.store import MemoryStore
from outrider.errors import ProviderError
from outrider.providers.adapters.hosted import CompatibleServer, adapter_of
from outrider.providers.adapters.openai_chat import OpenAIChat
from outrider.providers.api import ApiProvider
from outrider.providers.base import Request
from tests.oracles import type_errors
from tests.providers.canned import LOOK, Heard, ask, cuts, delta, events, request

GOOGLE = "https://generativelanguage.googleapis.com/v1beta/openai"
SIGNED = {"google": {"thought_signature": "c2lnbmVk"}}


def openrouter(model: str = "google/gemini-3-pro") -> ApiProvider:
    return adapter_of("openrouter")(model, api_key="k")


def next_request(model: ApiProvider, heard: Heard) -> dict[str, Any]:
    """The request after a reply and its results."""
    results = [ToolResultBlock(call.id, (TextBlock("seen"),)) for call in heard.reply.message.tool_calls]
    following = Message.user(*results) if results else Message.user("And?")
    messages = [Message.user("Hi"), heard.reply.message, following]
    body: dict[str, Any] = msgspec.json.decode(model.render(Request(messages, MemoryStore(), tools=(LOOK,))))
    assert type_errors("openai-chat", body) == []
    return body


def call(**more: Any) -> dict[str, Any]:
    function = {"name": "look", "arguments": '{"path": "a"}'}
    return {"index": 0, "id": "tool_0_look", "type": "function", "function": function} | more


# OpenRouter's reasoning_details

TEXT = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}
ENCRYPTED = {
    "type": "reasoning.encrypted",
    "data": "ZW5jcnlwdGVk",
    "id": "tool_0_look",
    "format": "google-gemini-v1",
    "index": 1,
}
REASONED = events(
    delta(content="", reasoning="I should ", reasoning_details=[TEXT | {"text": "I should "}]),
    delta(content="", reasoning="look.", reasoning_details=[TEXT | {"text": "look."}]),
    delta(content="", reasoning_details=[TEXT | {"signature": "c2ln"}]),
    delta(content=None, reasoning_details=[ENCRYPTED], tool_calls=[call()]),
    delta("tool_calls", content=""),
)


async def test_reasoning_details_are_joined_and_sent_back_to_the_same_model() -> None:
    heard = await ask(openrouter(), [REASONED], request(tools=(LOOK,)))
    assert heard.thinking == "I should look."
    sent = next_request(openrouter(), heard)["messages"][1]
    assert sent["reasoning_details"] == [TEXT | {"text": "I should look.", "signature": "c2ln"}, ENCRYPTED]
    assert sent["tool_calls"][0]["id"] == "tool_0_look"
    assert "reasoning" not in sent


async def test_reasoning_details_are_dropped_when_the_conversation_moves() -> None:
    heard = await ask(openrouter(), [REASONED], request(tools=(LOOK,)))
    for other in (openrouter("openai/gpt-6.1-sol"), OpenAIChat("google/gemini-3-pro", api_key="k")):
        sent = next_request(other, heard)["messages"][1]
        assert sent.keys() == {"role", "content", "tool_calls"}


async def test_reasoning_details_are_the_same_however_the_bytes_arrive() -> None:
    whole = await ask(openrouter(), [REASONED], request(tools=(LOOK,)))
    for pieces in list(cuts(REASONED))[::7]:
        assert (await ask(openrouter(), pieces, request(tools=(LOOK,)))).reply == whole.reply


async def test_reasoning_details_alone_are_shown() -> None:
    stream = events(
        delta(reasoning_details=[{"type": "reasoning.summary", "summary": "Short."}]), delta("stop", content="4")
    )
    assert (await ask(openrouter(), [stream])).thinking == "Short."


async def test_usage_of_an_error_chunk_is_on_the_error() -> None:
    chunk = delta("error", content="") | {
        "error": {"code": 400, "message": "Provider returned error"},
        "usage": {"prompt_tokens": 30, "completion_tokens": 4, "cost": 0.5},
    }
    with pytest.raises(ProviderError, match="Provider returned error") as caught:
        await ask(openrouter(), [events(delta(content="Hi"), chunk)])
    assert (caught.value.usage.input_tokens, caught.value.usage.output_tokens) == (30, 4)


# Google's compatible API


async def test_a_thought_signature_goes_back_with_its_call() -> None:
    model = CompatibleServer("gemini-3-pro", GOOGLE, api_key="k")
    stream = events(delta("tool_calls", tool_calls=[call(extra_content=SIGNED)]))
    heard = await ask(model, [stream], request(tools=(LOOK,)))
    assert next_request(model, heard)["messages"][1]["tool_calls"][0]["extra_content"] == SIGNED
    elsewhere = CompatibleServer("gemini-3-pro", "http://localhost:8000/v1")
    assert "extra_content" not in next_request(elsewhere, heard)["messages"][1]["tool_calls"][0]


async def test_a_thought_signature_of_a_text_goes_back_with_the_message() -> None:
    model = CompatibleServer("gemini-3-pro", GOOGLE, api_key="k")
    heard = await ask(model, [events(delta(content="Four."), delta("stop", content="", extra_content=SIGNED))])
    sent = next_request(model, heard)["messages"][1]
    assert (sent["content"], sent["extra_content"]) == ("Four.", SIGNED)


# Calls that are none


@pytest.mark.parametrize(
    "empty",
    [
        {"function_call": {"name": "", "arguments": ""}},
        {"function_call": {"name": None, "arguments": None}},
        {"tool_calls": [{"index": 0, "function": {"name": "", "arguments": ""}}]},
    ],
)
async def test_an_empty_call_is_no_call(empty: dict[str, Any]) -> None:
    heard = await ask(OpenAIChat("m", api_key="k"), [events(delta(content="Hi", **empty), delta("stop", **empty))])
    assert heard.reply.message == Message.assistant("Hi")


# Thinking in the text

INLINE = events(
    delta(content="\n<think>Is it <b>4</b>? "),
    delta(content="Yes.</think>\n\nIt is 4, not <think>5</think>."),
    delta("stop"),
)


def local(model: str = "qwen3") -> CompatibleServer:
    return CompatibleServer(model, "http://localhost:8000/v1")


async def test_thinking_at_the_beginning_of_a_text_is_thinking_however_it_arrives() -> None:
    for pieces in [(INLINE,), *cuts(INLINE)]:
        heard = await ask(local(), pieces)
        assert heard.thinking == "Is it <b>4</b>? Yes."
        assert heard.text == heard.reply.text == "It is 4, not <think>5</think>."


async def test_inline_thinking_goes_back_as_the_model_wrote_it_and_not_to_another() -> None:
    heard = await ask(local(), [INLINE])
    sent = next_request(local(), heard)["messages"][1]
    assert sent["content"] == "\n<think>Is it <b>4</b>? Yes.</think>\n\nIt is 4, not <think>5</think>."
    assert next_request(local("other"), heard)["messages"][1]["content"] == "It is 4, not <think>5</think>."


@pytest.mark.parametrize(
    ("pieces", "thinking", "text"),
    [
        (["<think>never ", "closed"], "never closed", ""),
        (["<thi"], "", "<thi"),
        (["<thinking hard"], "", "<thinking hard"),
        (["Hm. <think>x</think>"], "", "Hm. <think>x</think>"),
        (["<think></think>", "ok"], "", "ok"),
        (["<think>a</thi", "nk>b"], "a", "b"),
        (["<think>a</th", "at>b</think>c"], "a</that>b", "c"),
    ],
)
async def test_tags_that_are_split_open_or_elsewhere(pieces: list[str], thinking: str, text: str) -> None:
    heard = await ask(local(), [events(*(delta(content=piece) for piece in pieces), delta("stop"))])
    assert (heard.thinking, heard.text) == (thinking, text)
    assert heard.reply.text == text


async def test_openai_s_own_models_may_write_the_tag() -> None:
    heard = await ask(OpenAIChat("gpt-6.1", api_key="k"), [events(delta("stop", content="<think>x</think>y"))])
    assert heard.reply.message == Message.assistant("<think>x</think>y")


async def test_a_call_in_the_thinking_is_not_a_call() -> None:
    written = '<think>Perhaps <tool_call>{"name": "look", "arguments": {}}</tool_call></think>No.'
    heard = await ask(local(), [events(delta("stop", content=written))], request(tools=(LOOK,)))
    assert [type(block) for block in heard.reply.message.content] == [ThinkingBlock, TextBlock]
