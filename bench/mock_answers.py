"""The bytes that the mock model server answers with: for each API a tool call and a last text, streamed and whole.

The ids are a place that the server fills with a number of its own, since no two messages of a real API share one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

PLACE = b"00000000"
"""What stands for the number in an id."""
WORDS = tuple(f"word {number} " for number in range(20))
"""What the model says before it calls the tool, a delta each."""
PIECES = ('{"pa', 'th": ', '"src/', 'main.py"}')
"""The arguments of the call, a delta each."""
ARGUMENTS = "".join(PIECES)
TOOL = "answer"
_ID = PLACE.decode()
_MODEL = "turns"


@dataclass(frozen=True)
class Canned:
    """One answer, ready to be sent."""

    events: tuple[bytes, ...]
    """As a stream, event by event."""
    whole: bytes
    """As one JSON object."""

    @cached_property
    def stream(self) -> bytes:
        """All events at once."""
        return b"".join(self.events)


@dataclass(frozen=True)
class Api:
    """What one API answers, and how a tool result is recognized in its requests."""

    markers: tuple[bytes, ...]
    make: Callable[[tuple[str, ...], int], Canned]
    """A reply with these words and so many calls."""

    @cached_property
    def text(self) -> Canned:
        """The last answer."""
        return self.make(_DONE, 0)

    def calls(self, number: int) -> Canned:
        """So many calls in one reply; made once."""
        if number not in self._calls:
            self._calls[number] = self.make(WORDS, number)
        return self._calls[number]

    @cached_property
    def _calls(self) -> dict[int, Canned]:
        return {}


# Anthropic Messages


def _anthropic(words: tuple[str, ...], calls: int) -> Canned:
    reason = "tool_use" if calls else "end_turn"
    blocks: list[Json] = [{"type": "text", "text": "".join(words)}]
    for call_id in _ids("toolu", calls):
        blocks.append({"type": "tool_use", "id": call_id, "name": TOOL, "input": json.loads(ARGUMENTS)})
    usage = {"input_tokens": 9, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 30}
    message = {"id": f"msg_{_ID}", "type": "message", "role": "assistant", "model": _MODEL}
    end = {"stop_reason": reason, "stop_sequence": None}
    whole = {**message, "content": blocks, **end, "usage": usage}
    return Canned(tuple(_named(_anthropic_events(message, usage, blocks, words, end))), _encoded(whole))


def _anthropic_events(
    message: Json, usage: Json, blocks: list[Json], words: tuple[str, ...], end: Json
) -> Iterator[Json]:
    empty: Json = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage | {"output_tokens": 1}}
    yield {"type": "message_start", "message": message | empty}
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            begun, deltas = block | {"text": ""}, [{"type": "text_delta", "text": word} for word in words]
        else:
            begun = block | {"input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in PIECES]
        yield {"type": "content_block_start", "index": index, "content_block": begun}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": end, "usage": usage}
    yield {"type": "message_stop"}


# OpenAI Chat


def _chat(words: tuple[str, ...], calls: int, *, with_usage: bool) -> Canned:
    usage = {"prompt_tokens": 9, "completion_tokens": 30, "total_tokens": 39}
    head = {"id": f"chatcmpl-{_ID}", "created": 1_700_000_000, "model": _MODEL}
    function = {"name": TOOL, "arguments": ARGUMENTS}
    message: Json = {"role": "assistant", "content": "".join(words), "refusal": None}
    deltas: list[Json] = [{"role": "assistant", "content": ""}, *({"content": word} for word in words)]
    for index, call_id in enumerate(_ids("call", calls)):
        message.setdefault("tool_calls", []).append({"id": call_id, "type": "function", "function": function})
        deltas += _chat_call(index, call_id)
    reason = "tool_calls" if calls else "stop"
    choices: list[Json] = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "logprobs": None, "finish_reason": reason})
    chunk = head | {"object": "chat.completion.chunk"}
    chunks = [chunk | {"choices": [choice]} for choice in choices]
    if with_usage:
        chunks.append(chunk | {"choices": [], "usage": usage})
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
    whole = head | {"object": "chat.completion", "choices": [choice], "usage": usage}
    return Canned((*_unnamed(chunks), b"data: [DONE]\n\n"), _encoded(whole))


def _chat_call(index: int, call_id: str) -> Iterator[Json]:
    begun = {"index": index, "id": call_id, "type": "function", "function": {"name": TOOL, "arguments": ""}}
    yield {"tool_calls": [begun]}
    for piece in PIECES:
        yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


# OpenAI Responses


def _responses(words: tuple[str, ...], calls: int) -> Canned:
    part = {"type": "output_text", "text": "".join(words), "annotations": [], "logprobs": []}
    message = {"type": "message", "id": f"msg_{_ID}", "role": "assistant", "status": "completed", "content": [part]}
    items: list[Json] = [message]
    for call_id in _ids("call", calls):
        made = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": TOOL}
        items.append(made | {"arguments": ARGUMENTS, "status": "completed"})
    events = ({**event, "sequence_number": number} for number, event in enumerate(_response_events(items, words)))
    return Canned(tuple(_named(events)), _encoded(_response("completed", items)))


def _response(status: str, output: list[Json]) -> Json:
    usage = {
        "input_tokens": 9, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 30, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 39,
    }  # fmt: skip
    return {
        "id": f"resp_{_ID}", "object": "response", "created_at": 1_700_000_000, "model": _MODEL, "status": status,
        "output": output, "error": None, "incomplete_details": None, "instructions": None, "metadata": {},
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
        "usage": usage if status == "completed" else None,
    }  # fmt: skip


def _response_events(items: list[Json], words: tuple[str, ...]) -> Iterator[Json]:
    yield {"type": "response.created", "response": _response("in_progress", [])}
    yield {"type": "response.in_progress", "response": _response("in_progress", [])}
    for index, item in enumerate(items):
        empty: Json = {"content": [], "arguments": "", "status": "in_progress"}
        begun = {name: empty.get(name, value) for name, value in item.items()}
        yield {"type": "response.output_item.added", "output_index": index, "item": begun}
        for delta in _message_deltas(item, words) if item["type"] == "message" else _argument_deltas():
            yield delta | {"output_index": index, "item_id": item["id"]}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": _response("completed", items)}


def _message_deltas(item: Json, words: tuple[str, ...]) -> Iterator[Json]:
    part: Json = item["content"][0]
    begin = {"content_index": 0}
    yield begin | {"type": "response.content_part.added", "part": part | {"text": ""}}
    for word in words:
        yield begin | {"type": "response.output_text.delta", "delta": word, "logprobs": []}
    yield begin | {"type": "response.output_text.done", "text": part["text"], "logprobs": []}
    yield begin | {"type": "response.content_part.done", "part": part}


def _argument_deltas() -> Iterator[Json]:
    for piece in PIECES:
        yield {"type": "response.function_call_arguments.delta", "delta": piece}
    yield {"type": "response.function_call_arguments.done", "arguments": ARGUMENTS, "name": TOOL}


# Gemini


def _gemini(words: tuple[str, ...], number: int) -> Canned:
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 30, "totalTokenCount": 39}
    tail = {"usageMetadata": usage, "modelVersion": _MODEL, "responseId": f"r{_ID}"}
    made = {"name": TOOL, "args": json.loads(ARGUMENTS)}
    calls: list[Json] = [{"functionCall": {"id": call_id, **made}} for call_id in _ids("call", number)]

    def chunk(parts: list[Json], **end: str) -> Json:
        return {"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0, **end}], **tail}

    parts: list[Json] = [*({"text": word} for word in words), *calls]
    chunks = [*(chunk([part]) for part in parts), chunk([{"text": ""}], finishReason="STOP")]
    whole = chunk([{"text": "".join(words)}, *calls], finishReason="STOP")
    return Canned(tuple(_unnamed(chunks)), _encoded(whole))


def _ids(kind: str, number: int) -> list[str]:
    """An id for each call of one reply."""
    return [f"{kind}_{_ID}{f'_{index}' if index else ''}" for index in range(number)]


def _named(events: Iterable[Json]) -> Iterator[bytes]:
    for event in events:
        yield b"event: %b\ndata: %b\n\n" % (event["type"].encode(), _encoded(event))


def _unnamed(events: Iterable[Json]) -> Iterator[bytes]:
    for event in events:
        yield b"data: %b\n\n" % _encoded(event)


def _encoded(value: Json) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


_DONE = ("done",)
_ROLE = (b'"role":"tool"', b'"role": "tool"')
ANTHROPIC = Api((b'"tool_result"',), _anthropic)
CHAT = Api(_ROLE, partial(_chat, with_usage=False))
CHAT_WITH_USAGE = Api(_ROLE, partial(_chat, with_usage=True))
RESPONSES = Api((b'"function_call_output"',), _responses)
GEMINI = Api((b'"functionResponse"', b'"function_response"'), _gemini)
