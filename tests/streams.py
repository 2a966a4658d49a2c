"""What each model API streams for one answer, event by event, as its real servers do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias
from zlib import crc32

import msgspec

Json: TypeAlias = dict[str, Any]
Point: TypeAlias = Literal["nothing", "preamble", "first delta", "all but the end"]


class Answer(msgspec.Struct, frozen=True):
    """A reply: thoughts, then text, then calls as (id, name, arguments)."""

    text: str = ""
    calls: tuple[tuple[str, str, Json], ...] = ()
    thinking: str = ""
    by_line: bool = False
    """Whether the text is streamed line by line, not in two halves."""

    @property
    def halves(self) -> tuple[str, ...]:
        """The text in the pieces in which it is streamed."""
        if self.by_line:
            return tuple(self.text.splitlines(keepends=True))
        middle = (len(self.text) + 1) // 2
        return tuple(filter(None, (self.text[:middle], self.text[middle:])))


SIGNATURE = "c2lnbmVkIGJ5IHRoZSBtb2RlbA=="
"""What stands for a signature or for encrypted reasoning in every stream."""

_ENDS = {
    "anthropic": b'"message_delta"',
    "openai": b'"response.completed"',
    "openai-chat": b'"finish_reason":"',
    "gemini": b'"finishReason"',
}


def stream_of(api: str, answer: Answer) -> list[bytes]:
    """The events of a complete answer."""
    if api == "gemini":
        # Google ends lines with both characters.
        return [b"data: %b\r\n\r\n" % msgspec.json.encode(event) for event in _gemini(answer)]
    if api in ("openai-chat", "litellm"):
        return [*(b"data: %b\n\n" % msgspec.json.encode(event) for event in _chat(answer)), b"data: [DONE]\n\n"]
    events = _anthropic(answer) if api == "anthropic" else _numbered(_responses(answer))
    return [_named(event) for event in events]


def whole_of(api: str, answer: Answer) -> bytes:
    """The same answer as plain JSON, from a server of Anthropic's API or of Responses that does not stream."""
    if api == "openai":
        return msgspec.json.encode(_response("completed", list(_response_items(answer))))
    content: list[Json] = []
    if answer.thinking:
        content.append({"type": "thinking", "thinking": answer.thinking, "signature": SIGNATURE})
    if answer.text:
        content.append({"type": "text", "text": answer.text})
    content += [{"type": "tool_use", "id": each, "name": name, "input": given} for each, name, given in answer.calls]
    usage = {"input_tokens": 11, "output_tokens": 7, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 3}
    reason = "tool_use" if answer.calls else "end_turn"
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content}
    return msgspec.json.encode(message | {"stop_reason": reason, "stop_sequence": None, "usage": usage})


def stream_up_to(api: str, answer: Answer, point: Point) -> list[bytes]:
    """The events until a point: before any, before the first text, after it, or before the one that ends the reply."""
    events = stream_of(api, answer)
    begin = msgspec.json.encode(answer.halves[0])[1:-1] if answer.text else b"\0"
    first = next((index for index, event in enumerate(events) if begin in event), len(events))
    end = next(index for index, event in enumerate(events) if _ENDS[api] in event)
    return events[: {"nothing": 0, "preamble": first, "first delta": first + 1, "all but the end": end}[point]]


def error_event(api: str) -> bytes:
    """What an API streams when it breaks down after a good beginning."""
    said = "Overloaded"
    if api == "anthropic":
        return _named({"type": "error", "error": {"type": "overloaded_error", "message": said}})
    if api == "openai":
        error = {"type": "server_error", "code": "server_error", "message": said, "param": None}
        return _named({"type": "error", "sequence_number": 9, "error": error})
    code: Json = {"code": 503, "status": "UNAVAILABLE"} if api == "gemini" else {"code": "server_error"}
    return b"data: %b\n\n" % msgspec.json.encode({"error": {"message": said} | code})


def _named(event: Json) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), msgspec.json.encode(event))


def _text_of(arguments: Json) -> str:
    return msgspec.json.encode(arguments).decode()


# Anthropic Messages


def _anthropic(answer: Answer) -> Iterator[Json]:
    usage = {"input_tokens": 11, "output_tokens": 1, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 3}
    empty = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    yield {"type": "message_start", "message": empty | {"stop_reason": None, "stop_sequence": None}}
    yield {"type": "ping"}
    for index, (block, deltas) in enumerate(_anthropic_blocks(answer)):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    reason = "tool_use" if answer.calls else "end_turn"
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": None},
        "usage": usage | {"output_tokens": 7},
    }
    yield {"type": "message_stop"}


def _anthropic_blocks(answer: Answer) -> Iterator[tuple[Json, list[Json]]]:
    if answer.thinking:
        yield (
            {"type": "thinking", "thinking": "", "signature": ""},
            [
                {"type": "thinking_delta", "thinking": answer.thinking},
                {"type": "signature_delta", "signature": SIGNATURE},
            ],
        )
    if answer.text:
        yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": half} for half in answer.halves]
    for call_id, name, arguments in answer.calls:
        text = _text_of(arguments) if arguments else ""
        pieces = ["", text[:5], text[5:]]
        yield (
            {"type": "tool_use", "id": call_id, "name": name, "input": {}},
            [{"type": "input_json_delta", "partial_json": piece} for piece in pieces],
        )


# OpenAI Responses


def _numbered(events: Iterator[Json]) -> Iterator[Json]:
    for number, event in enumerate(events):
        yield event | {"sequence_number": number}


def _responses(answer: Answer) -> Iterator[Json]:
    items = list(_response_items(answer))
    yield {"type": "response.created", "response": _response("in_progress", [])}
    yield {"type": "response.in_progress", "response": _response("in_progress", [])}
    for index, item in enumerate(items):
        yield {"type": "response.output_item.added", "output_index": index, "item": _begun(item)}
        for delta in _response_deltas(item, answer):
            yield delta | {"output_index": index, "item_id": item["id"]}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": _response("completed", items)}


def _response(status: str, output: list[Json]) -> Json:
    usage = {
        "input_tokens": 19,
        "input_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 0},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 26,
    }
    return {
        "id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": status, "output": output,
        "error": None, "incomplete_details": None, "instructions": None, "metadata": {}, "parallel_tool_calls": True,
        "tool_choice": "auto", "tools": [], "usage": usage if status == "completed" else None,
    }  # fmt: skip


def _response_items(answer: Answer) -> Iterator[Json]:
    if answer.thinking:
        summary = [{"type": "summary_text", "text": answer.thinking}]
        yield {
            "type": "reasoning",
            "id": _own_id("rs", answer.thinking),
            "summary": summary,
            "encrypted_content": SIGNATURE,
        }
    if answer.text:
        content = [{"type": "output_text", "text": answer.text, "annotations": []}]
        item = {"type": "message", "id": _own_id("msg", answer.text), "role": "assistant", "status": "completed"}
        yield item | {"content": content}
    for call_id, name, arguments in answer.calls:
        call = {"type": "function_call", "id": _own_id("fc", call_id), "call_id": call_id, "name": name}
        yield call | {"arguments": _text_of(arguments), "status": "completed"}


def _own_id(kind: str, content: str) -> str:
    return f"{kind}_{crc32(content.encode()):08x}"


def _begun(item: Json) -> Json:
    """The item as it is announced: without what is still to come."""
    empty: Json = {"summary": [], "content": [], "arguments": "", "status": "in_progress", "encrypted_content": ""}
    return {name: empty.get(name, value) for name, value in item.items()}


def _response_deltas(item: Json, answer: Answer) -> Iterator[Json]:
    if item["type"] == "reasoning":
        begin = {"summary_index": 0}
        yield begin | {"type": "response.reasoning_summary_part.added", "part": {"type": "summary_text", "text": ""}}
        yield begin | {"type": "response.reasoning_summary_text.delta", "delta": answer.thinking, "obfuscation": "x"}
        yield begin | {"type": "response.reasoning_summary_text.done", "text": answer.thinking}
        yield begin | {"type": "response.reasoning_summary_part.done", "part": item["summary"][0]}
    elif item["type"] == "message":
        begin = {"content_index": 0}
        part = {"type": "output_text", "text": "", "annotations": []}
        yield begin | {"type": "response.content_part.added", "part": part}
        for half in answer.halves:
            yield begin | {"type": "response.output_text.delta", "delta": half, "logprobs": [], "obfuscation": "xyz"}
        yield begin | {"type": "response.output_text.done", "text": answer.text, "logprobs": []}
        yield begin | {"type": "response.content_part.done", "part": part | {"text": answer.text}}
    else:
        text = item["arguments"]
        yield {"type": "response.function_call_arguments.delta", "delta": text[:5], "obfuscation": "x"}
        yield {"type": "response.function_call_arguments.delta", "delta": text[5:], "obfuscation": ""}
        yield {"type": "response.function_call_arguments.done", "arguments": text, "name": item["name"]}


# OpenAI Chat Completions


def _chat(answer: Answer) -> Iterator[Json]:
    begin = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    for delta in _chat_deltas(answer):
        yield begin | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    reason = "tool_calls" if answer.calls else "stop"
    yield begin | {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    usage = {
        "prompt_tokens": 19, "completion_tokens": 7, "total_tokens": 26,
        "prompt_tokens_details": {"cached_tokens": 5}, "completion_tokens_details": {"reasoning_tokens": 2},
    }  # fmt: skip
    yield begin | {"choices": [], "usage": usage}


def _chat_deltas(answer: Answer) -> Iterator[Json]:
    yield {"role": "assistant", "content": ""}
    if answer.thinking:
        yield {"reasoning_content": answer.thinking}
    for half in answer.halves:
        yield {"content": half}
    for index, (call_id, name, arguments) in enumerate(answer.calls):
        function = {"name": name, "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": function}]}
        text = _text_of(arguments)
        for piece in (text[:5], text[5:]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


# Gemini


def _gemini(answer: Answer) -> Iterator[Json]:
    usage = {
        "promptTokenCount": 19, "candidatesTokenCount": 5, "thoughtsTokenCount": 2, "totalTokenCount": 26,
        "cachedContentTokenCount": 5,
    }  # fmt: skip
    for part in _gemini_parts(answer):
        content = {"role": "model", "parts": [part]}
        yield {"candidates": [{"content": content, "index": 0}], "usageMetadata": usage, "modelVersion": "m"}
    last = {"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": "STOP", "index": 0}
    yield {"candidates": [last], "usageMetadata": usage, "modelVersion": "m", "responseId": "r1"}


def _gemini_parts(answer: Answer) -> Iterator[Json]:
    if answer.thinking:
        yield {"text": answer.thinking, "thought": True}
    for half in answer.halves:
        yield {"text": half}
    for number, (call_id, name, arguments) in enumerate(answer.calls):
        part: Json = {"functionCall": {"id": call_id, "name": name, "args": arguments}}
        # Of parallel calls only the first is signed.
        yield part if number else part | {"thoughtSignature": SIGNATURE}
