"""The chunks of a Chat Completions stream, as servers send them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from outrider.conversation.usage import Usage
from outrider.providers.streams.stream import count_of


class Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: Any = None


class Custom(msgspec.Struct, gc=False):
    name: str | None = None
    input: Any = None


class Fragment(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: Function | None = None
    custom: Custom | None = None  # a call of a tool that takes text instead of JSON
    extra_content: Any = None  # state of Google's models, to be sent back with the call


class ContentDelta(msgspec.Struct, gc=False):
    """The content of a chunk. A whole message has the same fields."""

    content: Any = None
    refusal: str | None = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_details: Any = None
    extra_content: Any = None
    images: Any = None
    annotations: Any = None  # the sources of the text
    executed_tools: Any = None  # tools that Groq has run
    tool_calls: list[Fragment] | None = None
    function_call: Function | None = None


class Choice(msgspec.Struct, gc=False):
    index: int | None = None
    delta: ContentDelta | None = None
    message: ContentDelta | None = None  # only in a response that is not streamed
    finish_reason: str | None = None


class Chunk(msgspec.Struct, gc=False):
    choices: list[Choice] | None = None
    usage: dict[str, Any] | None = None
    x_groq: Any = None  # Groq's own fields, among them the usage
    error: Any = None
    message: Any = None
    """Only in a chunk that is an error itself, as some local servers send it, with its type and code."""
    type: Any = None
    code: Any = None

    @property
    def failure(self) -> Any:
        if self.error or self.choices or not isinstance(self.message, str):
            return self.error
        return {"message": self.message, "type": self.type, "code": self.code}


_decode = msgspec.json.Decoder(Chunk).decode
_decode_all = msgspec.json.Decoder(list[Chunk]).decode
DONE = b"[DONE]"  # the last event of a stream


def decode_events(events: Sequence[bytes]) -> Iterable[Chunk | bytes]:
    """Return the events as chunks. Events that are not valid chunks stay bytes."""
    last = len(events) - (events[-1] == DONE) if events else 0
    if last > 2:  # decode events that arrived together in one call
        try:
            chunks = _decode_all(b"[%b]" % b",".join(events[:last]))
        except (msgspec.DecodeError, RecursionError):
            return map(_chunk, events)
        if len(chunks) == last:  # else an event was not exactly one object
            return (*chunks, *events[last:])
    return map(_chunk, events)


def _chunk(event: bytes) -> Chunk | bytes:
    try:
        return _decode(event)
    except (msgspec.DecodeError, RecursionError):
        return event


def only_text(chunk: Chunk | bytes) -> str:
    """Return the text of a chunk that contains nothing else, or ""."""
    if isinstance(chunk, bytes):
        return ""
    choices = chunk.choices
    if not choices or len(choices) != 1 or chunk.usage is not None or chunk.error is not None:
        return ""
    choice = choices[0]
    if choice.index or choice.finish_reason is not None or choice.delta is None:
        return ""
    delta = choice.delta
    if type(delta.content) is not str or delta.tool_calls is not None or delta.refusal is not None:
        return ""
    if delta.reasoning_content is not None or delta.reasoning is not None or delta.reasoning_details is not None:
        return ""
    if delta.function_call is not None or delta.images is not None or delta.annotations is not None:
        return ""
    return delta.content if delta.extra_content is None and delta.executed_tools is None else ""


def text_of(content: Any) -> str:
    """Return the text of content: a string, a part, or a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    return "".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def usage_of(usage: dict[str, Any]) -> Usage:
    """Return the usage. With tools of the server, the input is the sum of several steps: the context is unknown."""
    prompt = usage.get("prompt_tokens_details")
    searches = count_of(usage.get("server_tool_use"), "web_search_requests")
    return Usage(
        count_of(usage, "prompt_tokens"),
        count_of(usage, "completion_tokens"),
        count_of(prompt, "cached_tokens") or count_of(usage, "prompt_cache_hit_tokens"),
        count_of(prompt, "cache_write_tokens"),
        count_of(usage.get("completion_tokens_details"), "reasoning_tokens"),
        web_searches=searches,
        context_tokens=0 if searches else None,
    )


def object_of(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
