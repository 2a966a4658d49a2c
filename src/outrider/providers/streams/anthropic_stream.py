"""Build a reply from the events of the Anthropic Messages API."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from typing import Any

import msgspec

from outrider.conversation.messages import (
    Block,
    Message,
    ProviderState,
    RawBlock,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from outrider.conversation.usage import Usage
from outrider.errors import ProviderError, UnavailableError
from outrider.providers.base import Reply, StopReason
from outrider.providers.catalogue.windows import json_tokens
from outrider.providers.deltas import (
    Delta,
    ServerToolFinished,
    ServerToolStarted,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from outrider.providers.rendering.server_tools import SEARCH, text_field
from outrider.providers.streams.anthropic_server_tools import citation_of, is_error_result, result_text_of
from outrider.providers.streams.stream import CallAssembler, OneByOne, count_of, decode_event, finished_call
from outrider.providers.transport.api_errors import error_message
from outrider.text import clean

_STOP_REASONS = {
    "end_turn": StopReason.END,
    "stop_sequence": StopReason.END,
    "tool_use": StopReason.TOOL_USE,
    "max_tokens": StopReason.MAX_TOKENS,
    "refusal": StopReason.REFUSAL,
    "pause_turn": StopReason.PAUSE,
    "compaction": StopReason.PAUSE,  # the API has shortened the conversation, and has not answered yet
    "model_context_window_exceeded": StopReason.CONTEXT_EXCEEDED,
}
_CUTS = (StopReason.MAX_TOKENS, StopReason.CONTEXT_EXCEEDED, StopReason.REFUSAL)  # stop reasons that may cut off a call

_PLAIN = ("text", "thinking", "redacted_thinking")
_CALL_FIELDS = {"type", "id", "name", "input"}


class _Delta(msgspec.Struct, gc=False):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    citation: Any = None
    stop_reason: str | None = None
    stop_details: Any = None
    container: Any = None


class _Block(msgspec.Struct, gc=False):
    """A block as its first event describes it: a call with its name, other blocks usually empty."""

    type: str = ""
    id: str = ""
    name: str = ""
    input: Any = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    citations: Any = None
    data: str = ""


class _Usage(msgspec.Struct, gc=False):
    """Cumulative: the values of a later event replace those of an earlier one."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_creation: dict[str, Any] | None = None
    server_tool_use: dict[str, Any] | None = None
    output_tokens_details: dict[str, Any] | None = None
    iterations: list[dict[str, Any]] | None = None


class _Message(msgspec.Struct, gc=False):
    """The message of the first event, which is usually empty, or a whole one from a server that does not stream."""

    content: list[_Block] | None = None
    stop_reason: str | None = None
    usage: _Usage | None = None
    stop_details: Any = None
    container: Any = None


class _Event(msgspec.Struct, gc=False):
    """The fields of all events in one struct. A field that an event lacks keeps its default."""

    type: str = ""
    index: int = 0
    delta: _Delta | None = None
    content_block: _Block | None = None
    message: _Message | None = None
    usage: _Usage | None = None
    error: Any = None


_EVENT = msgspec.json.Decoder(_Event)
_MESSAGE = msgspec.json.Decoder(_Message)


def _shown(name: Any) -> str:
    return SEARCH if str(name).startswith("tool_search_tool_") else str(name or "")


class IncomingReply(OneByOne):
    """A reply that is being received."""

    def __init__(self, origin: ProviderState) -> None:
        super().__init__(origin)
        self._usage: dict[str, Any] = {}
        self._begin()

    def _begin(self) -> None:
        self._blocks: dict[int, _Block] = {}
        self._pieces: dict[int, list[str]] = {}
        self._calls: dict[int, CallAssembler] = {}
        self._signatures: dict[int, str] = {}
        self._raw: dict[int, dict[str, Any]] = {}
        """Blocks that go back as they came, or parts of them: of server tools, of unknown types, calls."""
        self._citations: dict[int, list[Any]] = {}
        self._closed: set[int] = set()
        self._first_input = 0  # the tokens of the conversation as it was sent
        self._container: dict[str, Any] = {}
        self._stop = StopReason.OTHER
        self._stop_detail = ""

    def take(self, data: bytes) -> Iterator[Delta]:
        event = decode_event(data, _EVENT, "Anthropic")
        if event.type == "content_block_delta" and event.delta:
            yield from self._add(event.index, event.delta, data)
        elif event.type == "content_block_start" and event.content_block:
            self._keep(event.index, event.content_block, data, "content_block")
            yield from self._start(event.index, event.content_block)
        elif event.type == "content_block_stop":
            yield from self._close(event.index)
        elif event.type == "message_start" and event.message:
            self._begin()  # a server that starts again in the middle repeats the whole reply
            yield from self._take_message(event.message, data, "message")
        elif event.type == "message":
            yield from self._take_message(decode_event(data, _MESSAGE, "Anthropic"), data)
            self.complete = True
        elif event.type == "error":
            raise _error(event.error)
        else:
            self._take_end(event)

    def _take_end(self, event: _Event) -> None:
        if event.type == "message_delta":
            self._count(event.usage)
            if event.delta:
                self._end(event.delta)
        elif event.type == "message_stop":
            self.complete = True

    def _take_message(self, message: _Message, data: bytes, *path: str) -> Iterator[Delta]:
        """Read a message: the start of a stream, or a whole one from a server that does not stream."""
        self._count(message.usage)
        self._first_input = _usage(self._usage).input_tokens
        for index, block in enumerate(message.content or ()):
            self._keep(index, block, data, *path, "content", index)
            yield from self._start(index, block)
            if block.thinking:
                yield ThinkingDelta(block.thinking)
            yield from self._close(index)
        self._end(message)

    def _keep(self, index: int, block: _Block, data: bytes, *path: str | int) -> None:
        """Keep a block as it came, unless we know all of it. The path leads to it in the event."""
        if block.type not in _PLAIN:
            raw = functools.reduce(operator.getitem, path, msgspec.json.decode(data))
            if isinstance(raw, dict):
                self._raw[index] = raw

    def _end(self, said: _Delta | _Message) -> None:
        if said.stop_reason:
            self._stop = _STOP_REASONS.get(said.stop_reason, StopReason.OTHER)
            unknown = clean(said.stop_reason) if self._stop is StopReason.OTHER else ""
            self._stop_detail = _stop_detail(said.stop_details) or unknown
        if isinstance(said.container, dict) and isinstance(said.container.get("id"), str):
            self._container = {"container": said.container}

    def _count(self, usage: _Usage | None) -> None:
        if usage:
            counts = msgspec.structs.asdict(usage)
            self._usage |= {name: value for name, value in counts.items() if value is not None}

    def _close(self, index: int) -> Iterator[Delta]:
        """Mark a block as complete. Calls of server tools are shown then: their arguments are known."""
        self._closed.add(index)
        if index in self._raw:
            match self._raw_block(index):
                case ServerToolUseBlock(id=call_id, name=name, input=input):
                    yield ServerToolStarted(call_id, name, input)
                case ServerToolResultBlock() as result:
                    call_id = result.tool_use_id  # a paused reply has the call in an earlier message
                    named = (each.get("name") for each in self._raw.values() if each.get("id") == call_id)
                    yield ServerToolFinished(call_id, _shown(next(named, "")), result.text, result.is_error)

    def _start(self, index: int, block: _Block) -> Iterator[Delta]:
        self._blocks[index] = block
        self._pieces[index] = []
        if isinstance(block.citations, list) and block.citations:
            self._citations[index] = list(block.citations)
        if block.type == "tool_use":
            self._calls[index] = call = CallAssembler(block.id, block.name)
            if block.input:
                call.add(msgspec.json.encode(block.input).decode())
            yield ToolCallDelta(call.id, call.name, call.text)
        elif block.text and block.type == "text":
            yield from self._add(index, _Delta("text_delta", text=block.text))

    def _add(self, index: int, delta: _Delta, data: bytes = b"") -> Iterator[Delta]:
        if delta.type == "text_delta":
            self._pieces.setdefault(index, []).append(delta.text)
            self._blocks.setdefault(index, _Block("text"))
            yield TextDelta(delta.text)
        elif delta.type == "input_json_delta" and index in self._calls:
            call = self._calls[index]
            call.add(delta.partial_json)
            if delta.partial_json:
                yield ToolCallDelta(call.id, call.name, delta.partial_json)
        elif delta.type == "input_json_delta":
            self._pieces.setdefault(index, []).append(delta.partial_json)
        elif delta.type == "citations_delta" and isinstance(delta.citation, dict):
            self._citations.setdefault(index, []).append(delta.citation)
        elif delta.type == "thinking_delta":
            self._pieces.setdefault(index, []).append(delta.thinking)
            yield ThinkingDelta(delta.thinking)
        elif delta.type == "signature_delta":
            self._signatures[index] = self._signatures.get(index, "") + delta.signature
        elif index in self._raw and index not in self._calls:
            _extend(self._raw[index], msgspec.json.decode(data)["delta"])

    def end(self) -> Iterator[Reply]:
        blocks = [self._block(index, block) for index, block in sorted(self._blocks.items())]
        message = Message("assistant", tuple(block for block in blocks if block is not None))
        yield Reply(message, self._stop, self.usage, self._stop_detail)

    @property
    def usage(self) -> Usage:
        usage = _usage(self._usage)
        steps = [each for each in self._usage.get("iterations", ()) if each.get("type") == "message"]
        if steps and (last := _usage(steps[-1])).input_tokens:
            return msgspec.structs.replace(usage, context_tokens=last.total_tokens)
        if not (found := sum(json_tokens(each) for each in self._raw.values() if _is_result(each))):
            return usage
        # The API bills the input of each step, with all that came before it: the first one and the results are left.
        context = min(self._first_input + found, usage.input_tokens) + usage.output_tokens
        return msgspec.structs.replace(usage, context_tokens=context)

    def _block(self, index: int, block: _Block) -> Block | None:
        text = "".join(self._pieces.get(index, ()))
        match block.type:
            case "text":
                return self._text(index, text) if text else None
            case "tool_use":
                return self._call(index)
            case "thinking":
                signature = self._signatures.get(index) or block.signature
                state = self._state({"signature": signature}) if signature else None
                return ThinkingBlock(text or block.thinking or "", state)
            case "redacted_thinking":
                return ThinkingBlock("", self._state({"redacted": block.data}))
        return self._raw_block(index) if index in self._raw else None

    def _text(self, index: int, text: str) -> TextBlock:
        raw = self._citations.get(index)
        if not raw:
            return TextBlock(text)
        found = (citation_of(each) for each in raw)
        return TextBlock(text, self._state({"citations": raw}), tuple(each for each in found if each))

    def _raw_block(self, index: int) -> ServerToolUseBlock | ServerToolResultBlock | RawBlock | None:
        block, kind = self._raw[index], str(self._raw[index].get("type") or "")
        if arguments := "".join(self._pieces.get(index, ())):
            block = block | {"input": finished_call("", "", arguments).input}
        kept = self._state({"block": block} | self._container)
        if kind in ("server_tool_use", "mcp_tool_use"):
            given = block.get("input")
            called_with = given if isinstance(given, dict) else {}
            # The API refuses a call that was cut off before it had a result.
            is_answered = any(each.get("tool_use_id") == block.get("id") for each in self._raw.values())
            state = kept if is_answered or self._stop not in _CUTS else None
            return ServerToolUseBlock(str(block.get("id") or ""), _shown(block.get("name")), called_with, state)
        if _is_result(block):
            content, call_id = block.get("content"), str(block.get("tool_use_id") or "")
            return ServerToolResultBlock(call_id, result_text_of(content), is_error_result(content), kept)
        return RawBlock(kind, kept) if kind and kind != "tool_use" else None

    def _call(self, index: int) -> ToolUseBlock:
        """Return the call. If the reply was cut off in it, its arguments are marked invalid and it does not run."""
        extra = {name: value for name, value in self._raw.get(index, {}).items() if name not in _CALL_FIELDS}
        call = self._calls[index].finish(self._state({"extra": extra}) if extra else None)
        text = self._calls[index].text
        was_cut = self._stop in _CUTS and index == max(self._blocks) and not (call.input and index in self._closed)
        return msgspec.structs.replace(call, input={}, invalid_input=text) if was_cut else call


def _usage(counts: dict[str, Any]) -> Usage:
    cached, written = count_of(counts, "cache_read_input_tokens"), count_of(counts, "cache_creation_input_tokens")
    return Usage(
        count_of(counts, "input_tokens") + cached + written,
        count_of(counts, "output_tokens"),
        cached,
        written,
        count_of(counts.get("output_tokens_details"), "thinking_tokens"),
        web_searches=count_of(counts.get("server_tool_use"), "web_search_requests"),
        cache_write_1h_tokens=min(written, count_of(counts.get("cache_creation"), "ephemeral_1h_input_tokens")),
    )


def _is_result(block: dict[str, Any]) -> bool:
    return str(block.get("type")).endswith("_tool_result")


def _extend(block: dict[str, Any], delta: Any) -> None:
    """Add the fields of a delta to a block whose type is unknown: texts and lists grow, other values are replaced."""
    for name, value in delta.items() if isinstance(delta, dict) else ():
        before = block.get(name)
        if name != "type":
            grows = type(before) is type(value) and isinstance(value, str | list)
            block[name] = before + value if grows else value


def _stop_detail(details: Any) -> str:
    if not isinstance(details, dict):
        return ""
    said = text_field(details, "explanation") or text_field(details, "category")
    other = text_field(details, "recommended_model")
    return clean("; ".join(filter(None, (said, f"the API recommends {other}" if other else ""))))


def _error(error: Any) -> ProviderError:
    message = error_message({"error": error}) or "an error without a message"
    kind = error.get("type", "") if isinstance(error, dict) else ""
    if kind in ("overloaded_error", "api_error", "rate_limit_error", "timeout_error"):
        return UnavailableError(f"Anthropic ended the stream with an error: {message}", retryable=True)
    return ProviderError(f"Anthropic ended the stream with an error: {message}")
