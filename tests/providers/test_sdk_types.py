"""Every type that the vendors' SDKs define goes through the adapters and back, full, minimal and with nulls.

`tests/sdk_types.json` lists the types that we have looked at. An update of an SDK that brings another one fails here:
look at it, decide what the adapter does with it, and add it to the list.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from anthropic.types.beta import BetaContentBlock, BetaRawContentBlockDelta, BetaRawMessageStreamEvent, BetaStopReason
from google.genai import types as google
from openai.types.chat import ChatCompletionMessageToolCallUnion
from openai.types.chat.chat_completion_chunk import Choice, ChoiceDelta
from openai.types.responses import ResponseOutputItem, ResponseOutputMessage, ResponseStreamEvent
from openai.types.responses.response import IncompleteDetails
from openai.types.responses.response_error import ResponseError
from pydantic.alias_generators import to_camel

from outrider.conversation.messages import Message, RawBlock, TextBlock, ToolResultBlock
from outrider.errors import IncompleteStreamError, ProviderError
from outrider.providers.anthropic import Anthropic
from outrider.providers.api import ApiProvider
from outrider.providers.base import Reply
from outrider.providers.gemini import Gemini
from outrider.providers.openai_chat import OpenAIChat
from outrider.providers.openai_responses import OpenAIResponses
from tests.providers.canned import ask, delta, events, request
from tests.sdk_samples import FORMS, members, sample, tag, tags, values

PARTS = get_args(ResponseOutputMessage.model_fields["content"].annotation)[0]
KNOWN: dict[str, list[str]] = msgspec.json.decode((Path(__file__).parents[1] / "sdk_types.json").read_bytes())
DEFINED: dict[str, set[str]] = {
    "anthropic blocks": tags(BetaContentBlock),
    "anthropic deltas": tags(BetaRawContentBlockDelta),
    "anthropic events": tags(BetaRawMessageStreamEvent),
    "anthropic stop reasons": values(BetaStopReason),
    "responses items": tags(ResponseOutputItem),
    "responses events": tags(ResponseStreamEvent),
    "responses parts": tags(PARTS),
    "responses incomplete reasons": values(IncompleteDetails.model_fields["reason"].annotation),
    "responses error codes": values(ResponseError.model_fields["code"].annotation),
    "chat calls": tags(ChatCompletionMessageToolCallUnion),
    "chat delta fields": set(ChoiceDelta.model_fields),
    "chat finish reasons": values(Choice.model_fields["finish_reason"].annotation),
    "gemini part fields": set(google.Part.model_fields),
    "gemini candidate fields": set(google.Candidate.model_fields),
    "gemini finish reasons": {each.value for each in google.FinishReason},
    "gemini block reasons": {each.value for each in google.BlockedReason},
}
forms = pytest.mark.parametrize("form", FORMS)


@pytest.mark.parametrize("table", DEFINED)
def test_every_type_of_the_sdks_is_known(table: str) -> None:
    assert sorted(DEFINED[table]) == KNOWN[table]


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
@pytest.mark.parametrize("block", members(BetaContentBlock), ids=tag)
async def test_blocks_of_anthropic(block: Any, form: str) -> None:
    raw = sample(block, form)
    shown = {"type": "content_block_start", "index": 0, "content_block": raw}
    reply = await there_and_back(anthropic, START, shown, {"type": "content_block_stop", "index": 0}, *END)
    assert reply.message.content or (tag(block) == "text" and not raw.get("text"))
    await there_and_back(
        anthropic, {"type": "message", "role": "assistant", "content": [raw], "stop_reason": "end_turn"}
    )


@forms
@pytest.mark.parametrize("piece", members(BetaRawContentBlockDelta), ids=tag)
@pytest.mark.parametrize("block", ["text", "thinking", "tool_use", "server_tool_use", "compaction", "of_next_year"])
async def test_deltas_of_anthropic(piece: Any, form: str, block: str) -> None:
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": block, "id": "i", "name": "n"}}
    told = {"type": "content_block_delta", "index": 0, "delta": sample(piece, form)}
    await there_and_back(anthropic, START, start, told, told, *END)


@forms
@pytest.mark.parametrize("event", members(BetaRawMessageStreamEvent), ids=tag)
async def test_events_of_anthropic(event: Any, form: str) -> None:
    await there_and_back(anthropic, START, sample(event, form), *END)


@pytest.mark.parametrize("reason", KNOWN["anthropic stop reasons"])
async def test_stop_reasons_of_anthropic(reason: str) -> None:
    end = {"type": "message_delta", "delta": {"stop_reason": reason}}
    await there_and_back(anthropic, START, end, {"type": "message_stop"})


# OpenAI Responses

COMPLETED = {"type": "response.completed", "response": {"usage": {"input_tokens": 1, "output_tokens": 1}}}


@forms
@pytest.mark.parametrize("item", members(ResponseOutputItem), ids=tag)
async def test_items_of_responses(item: Any, form: str) -> None:
    raw = sample(item, form)
    reasoning = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "e"}
    done = [
        {"type": "response.output_item.done", "output_index": index, "item": each}
        for index, each in enumerate([reasoning, raw])
    ]
    reply = await there_and_back(responses, *done, COMPLETED)
    kept = [block for block in reply.message.content if isinstance(block, RawBlock)]
    assert len(reply.message.content) > 1 or tag(item) in ("reasoning", "tool_search_call", "tool_search_output")
    assert all(block.kind == tag(item) for block in kept)
    await there_and_back(responses, {"object": "response", "status": "completed", "output": [raw]})


@forms
@pytest.mark.parametrize("event", members(ResponseStreamEvent), ids=tag)
async def test_events_of_responses(event: Any, form: str) -> None:
    raw = sample(event, form)
    if tag(event) in ("error", "response.failed"):
        with pytest.raises(ProviderError):
            await there_and_back(responses, raw, COMPLETED)
    else:
        message = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Hi"}]}
        done = {"type": "response.output_item.done", "output_index": 1, "item": message}
        await there_and_back(responses, raw, done, COMPLETED)


@forms
@pytest.mark.parametrize("part", members(PARTS), ids=tag)
async def test_parts_of_responses(part: Any, form: str) -> None:
    message = {"type": "message", "id": "m", "content": [sample(part, form)]}
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
@pytest.mark.parametrize("call", members(ChatCompletionMessageToolCallUnion), ids=tag)
async def test_calls_of_chat(call: Any, form: str) -> None:
    reply = await there_and_back(chat, delta("tool_calls", tool_calls=[sample(call, form)]))
    assert [each.name for each in reply.message.tool_calls] == ["x"]


@forms
@pytest.mark.parametrize("reason", [*KNOWN["chat finish reasons"], None, "of_next_year"])
async def test_deltas_and_finish_reasons_of_chat(reason: str | None, form: str) -> None:
    await there_and_back(chat, {"choices": [{"delta": sample(ChoiceDelta, form)}]}, delta(reason), delta("stop"))


# Gemini


@forms
@pytest.mark.parametrize("field", KNOWN["gemini part fields"])
async def test_parts_of_gemini(field: str, form: str) -> None:
    content = sample(google.Part.model_fields[field].annotation, form, camel=True)
    told = {"candidates": [{"content": {"parts": [{to_camel(field): content}]}, "finishReason": "STOP"}]}
    await there_and_back(gemini, told)


@forms
async def test_candidates_of_gemini(form: str) -> None:
    whole = sample(google.Candidate, form, camel=True)
    await there_and_back(gemini, {"candidates": [whole]}, {"candidates": [{"finishReason": "STOP"}]})
    await there_and_back(gemini, {"candidates": [whole | {"finishReason": "STOP"}]})


@pytest.mark.parametrize("reason", [*KNOWN["gemini finish reasons"], "OF_NEXT_YEAR"])
async def test_finish_reasons_of_gemini(reason: str) -> None:
    await there_and_back(gemini, {"candidates": [{"finishReason": reason}]})


@pytest.mark.parametrize("reason", [*KNOWN["gemini block reasons"], "OF_NEXT_YEAR"])
async def test_block_reasons_of_gemini(reason: str) -> None:
    await there_and_back(gemini, {"promptFeedback": {"blockReason": reason}})
