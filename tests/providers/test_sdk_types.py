"""Every type that the vendors' SDKs define goes through the adapters and back, full, minimal and with nulls.

`tests/sdk_types.json` lists the types that we have looked at. An update of an SDK that brings another one fails here:
look at it, decide what the adapter does with it, and add it to the list.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from pydantic.alias_generators import to_camel

from outrider.conversation.messages import Message, RawBlock, TextBlock, ToolResultBlock
from outrider.errors import IncompleteStreamError, ProviderError
from outrider.providers.adapters.anthropic import Anthropic
from outrider.providers.adapters.gemini import Gemini
from outrider.providers.adapters.openai_chat import OpenAIChat
from outrider.providers.adapters.openai_responses import OpenAIResponses
from outrider.providers.api import ApiProvider
from outrider.providers.base import Reply
from tests.providers.canned import ask, delta, events, request
from tests.sdk_samples import FORMS, sample

KNOWN: dict[str, list[str]] = msgspec.json.decode((Path(__file__).parents[1] / "sdk_types.json").read_bytes())
forms = pytest.mark.parametrize("form", FORMS)


def known(table: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", KNOWN[table])


@pytest.fixture(scope="module")
def sdks() -> ModuleType:
    return import_module("tests.sdk_definitions")


@pytest.mark.parametrize("table", KNOWN)
def test_every_type_of_the_sdks_is_known(sdks: ModuleType, table: str) -> None:
    assert sdks.defined()[table] == KNOWN[table]


def test_every_table_is_known(sdks: ModuleType) -> None:
    assert sdks.defined().keys() == KNOWN.keys()


def adapter(kind: type[ApiProvider], name: str) -> Callable[[], ApiProvider]:
    return lambda: kind(name, api_key="key")


anthropic = adapter(Anthropic, "claude-opus-4-7")
responses = adapter(OpenAIResponses, "gpt-5.6")
chat = adapter(OpenAIChat, "gpt-5.6")
gemini = adapter(Gemini, "gemini-3-pro")


async def there_and_back(make: Callable[[], ApiProvider], *told: Any) -> Reply:
    """The reply of a stream, after it was sent back with results for its calls."""
    reply = (await ask(make(), [events(*told, done=False)])).reply
    results = tuple(ToolResultBlock(call.id, (TextBlock("ok"),)) for call in reply.message.tool_calls)
    follow = Message("user", (*results, TextBlock("Go on")))
    model = make()
    with suppress(IncompleteStreamError):  # the second response is empty
        await ask(model, [], request(Message.user("Hello"), reply.message, follow))
    assert msgspec.json.encode(model._transport.body)  # type: ignore[attr-defined]
    return reply


# Anthropic

START = {"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 1, "output_tokens": 1}}}
END = [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"}]


@forms
@known("anthropic blocks")
async def test_blocks_of_anthropic(sdks: ModuleType, name: str, form: str) -> None:
    raw = sample(sdks.member("anthropic blocks", name), form)
    shown = {"type": "content_block_start", "index": 0, "content_block": raw}
    reply = await there_and_back(anthropic, START, shown, {"type": "content_block_stop", "index": 0}, *END)
    assert reply.message.content or (name == "text" and not raw.get("text"))
    await there_and_back(
        anthropic, {"type": "message", "role": "assistant", "content": [raw], "stop_reason": "end_turn"}
    )


@forms
@known("anthropic deltas")
@pytest.mark.parametrize("block", ["text", "thinking", "tool_use", "server_tool_use", "compaction", "of_next_year"])
async def test_deltas_of_anthropic(sdks: ModuleType, name: str, form: str, block: str) -> None:
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": block, "id": "i", "name": "n"}}
    told = {"type": "content_block_delta", "index": 0, "delta": sample(sdks.member("anthropic deltas", name), form)}
    await there_and_back(anthropic, START, start, told, told, *END)


@forms
@known("anthropic events")
async def test_events_of_anthropic(sdks: ModuleType, name: str, form: str) -> None:
    await there_and_back(anthropic, START, sample(sdks.member("anthropic events", name), form), *END)


@pytest.mark.parametrize("reason", KNOWN["anthropic stop reasons"])
async def test_stop_reasons_of_anthropic(reason: str) -> None:
    end = {"type": "message_delta", "delta": {"stop_reason": reason}}
    await there_and_back(anthropic, START, end, {"type": "message_stop"})


# OpenAI Responses

COMPLETED = {"type": "response.completed", "response": {"usage": {"input_tokens": 1, "output_tokens": 1}}}


@forms
@known("responses items")
async def test_items_of_responses(sdks: ModuleType, name: str, form: str) -> None:
    raw = sample(sdks.member("responses items", name), form)
    reasoning = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "e"}
    done = [
        {"type": "response.output_item.done", "output_index": index, "item": each}
        for index, each in enumerate([reasoning, raw])
    ]
    reply = await there_and_back(responses, *done, COMPLETED)
    kept = [block for block in reply.message.content if isinstance(block, RawBlock)]
    assert len(reply.message.content) > 1 or name in ("reasoning", "tool_search_call", "tool_search_output")
    assert all(block.kind == name for block in kept)
    await there_and_back(responses, {"object": "response", "status": "completed", "output": [raw]})


@forms
@known("responses events")
async def test_events_of_responses(sdks: ModuleType, name: str, form: str) -> None:
    raw = sample(sdks.member("responses events", name), form)
    if name in ("error", "response.failed"):
        with pytest.raises(ProviderError):
            await there_and_back(responses, raw, COMPLETED)
    else:
        message = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Hi"}]}
        done = {"type": "response.output_item.done", "output_index": 1, "item": message}
        await there_and_back(responses, raw, done, COMPLETED)


@forms
@known("responses parts")
async def test_parts_of_responses(sdks: ModuleType, name: str, form: str) -> None:
    message = {"type": "message", "id": "m", "content": [sample(sdks.member("responses parts", name), form)]}
    done = {"type": "response.output_item.done", "output_index": 0, "item": message}
    assert (await there_and_back(responses, done, COMPLETED)).text == "x"


@pytest.mark.parametrize("reason", KNOWN["responses incomplete reasons"])
async def test_incomplete_reasons_of_responses(reason: str) -> None:
    details = {"incomplete_details": {"reason": reason}}
    reply = await there_and_back(responses, {"type": "response.incomplete", "response": details})
    assert not reply.stop_detail  # it is one that we know


@pytest.mark.parametrize("code", KNOWN["responses error codes"])
async def test_error_codes_of_responses(code: str) -> None:
    with pytest.raises(ProviderError, match="Why"):
        await there_and_back(responses, {"type": "error", "code": code, "message": "Why", "param": None})


# Chat Completions


@forms
@known("chat calls")
async def test_calls_of_chat(sdks: ModuleType, name: str, form: str) -> None:
    reply = await there_and_back(chat, delta("tool_calls", tool_calls=[sample(sdks.member("chat calls", name), form)]))
    assert [each.name for each in reply.message.tool_calls] == ["x"]


@forms
@pytest.mark.parametrize("reason", [*KNOWN["chat finish reasons"], None, "of_next_year"])
async def test_deltas_and_finish_reasons_of_chat(sdks: ModuleType, reason: str | None, form: str) -> None:
    piece = sample(sdks.model("chat delta fields"), form)
    await there_and_back(chat, {"choices": [{"delta": piece}]}, delta(reason), delta("stop"))


# Gemini


@forms
@known("gemini part fields")
async def test_parts_of_gemini(sdks: ModuleType, name: str, form: str) -> None:
    content = sample(sdks.field("gemini part fields", name), form, camel=True)
    told = {"candidates": [{"content": {"parts": [{to_camel(name): content}]}, "finishReason": "STOP"}]}
    await there_and_back(gemini, told)


@forms
async def test_candidates_of_gemini(sdks: ModuleType, form: str) -> None:
    whole = sample(sdks.model("gemini candidate fields"), form, camel=True)
    await there_and_back(gemini, {"candidates": [whole]}, {"candidates": [{"finishReason": "STOP"}]})
    await there_and_back(gemini, {"candidates": [whole | {"finishReason": "STOP"}]})


@pytest.mark.parametrize("reason", [*KNOWN["gemini finish reasons"], "OF_NEXT_YEAR"])
async def test_finish_reasons_of_gemini(reason: str) -> None:
    await there_and_back(gemini, {"candidates": [{"finishReason": reason}]})


@pytest.mark.parametrize("reason", [*KNOWN["gemini block reasons"], "OF_NEXT_YEAR"])
async def test_block_reasons_of_gemini(reason: str) -> None:
    await there_and_back(gemini, {"promptFeedback": {"blockReason": reason}})
