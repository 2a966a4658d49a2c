"""Build a reply from the events of the Anthropic Messages API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from outrider.conversation.messages import (
    Block,
    Message,
    ProviderState,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    Usage,
)
from outrider.errors import IncompleteStreamError, ProviderError, UnavailableError
from outrider.providers.anthropic_server_tools import citation_of, is_error_result, result_text_of
from outrider.providers.api_errors import error_message
from outrider.providers.base import Reply, StopReason
from outrider.providers.deltas import (
    Delta,
    ServerToolFinished,
    ServerToolStarted,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from outrider.providers.stream import CallAssembler, finished_call, take_each
from outrider.providers.tool_search import SHOWN_NAME

_STOP_REASONS = {
    "end_turn": StopReason.END,
    "stop_sequence": StopReason.END,
    "tool_use": StopReason.TOOL_USE,
    "max_tokens": StopReason.MAX_TOKENS,
    "refusal": StopReason.REFUSAL,
    "pause_turn": StopReason.PAUSE,
    "model_context_window_exceeded": StopReason.CONTEXT_EXCEEDED,
}
_CUTS = (StopReason.MAX_TOKENS, StopReason.CONTEXT_EXCEEDED, StopReason.REFUSAL)
"""Stop reasons that may cut off a call."""


class _Delta(msgspec.Struct, gc=False):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    citation: Any = None
    stop_reason: str | None = None


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
    server_tool_use: dict[str, Any] | None = None


class _Message(msgspec.Struct, gc=False):
    """The message of the first event, which is empty, or a whole one from a server that does not stream."""

    content: list[_Block] | None = None
    stop_reason: str | None = None
    usage: _Usage | None = None


class _Event(msgspec.Struct, gc=False):
    """The fields of all events in one struct. A field that an event lacks keeps its default."""

    type: str = ""
    index: int = 0
    delta: _Delta | None = None
    content_block: _Block | None = None
    message: _Message | None = None
    usage: _Usage | None = None
    error: Any = None


_T = TypeVar("_T")
_EVENT = msgspec.json.Decoder(_Event)
_MESSAGE = msgspec.json.Decoder(_Message)


def _is_server_block(kind: str) -> bool:
    """Return whether a block belongs to a tool that the API runs."""
    return kind in ("server_tool_use", "mcp_tool_use", "container_upload") or kind.endswith("_tool_result")


def _shown(name: Any) -> str:
    """Return the name under which a server tool is shown."""
    return SHOWN_NAME if str(name).startswith("tool_search_tool_") else str(name or "")


def _decoded(data: bytes, decoder: msgspec.json.Decoder[_T]) -> _T:
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise ProviderError(f"Anthropic sent an event that cannot be decoded: {error}") from None
    except (ValueError, RecursionError) as error:
        raise IncompleteStreamError(
            f"Anthropic sent an event that cannot be decoded: {error}", retryable=True
        ) from None


class IncomingReply:
    """A reply that is being received."""

    def __init__(self, origin: ProviderState) -> None:
        self.complete = False
        self._origin = origin
        self._blocks: dict[int, _Block] = {}
        self._pieces: dict[int, list[str]] = {}
        self._calls: dict[int, CallAssembler] = {}
        self._signatures: dict[int, str] = {}
        self._server_blocks: dict[int, dict[str, Any]] = {}
        """Blocks of tools that the API runs. They are sent back as they came."""
        self._citations: dict[int, list[Any]] = {}
        self._closed: set[int] = set()
        self._usage: dict[str, Any] = {}
        self._stop = StopReason.OTHER

    take_all = take_each

    def take(self, data: bytes) -> Iterator[Delta]:
        """Read one event and yield its deltas."""
        event = _decoded(data, _EVENT)
        if event.type == "content_block_delta" and event.delta:
            yield from self._add(event.index, event.delta)
        elif event.type == "content_block_start" and event.content_block:
            if _is_server_block(event.content_block.type):
                self._server_blocks[event.index] = msgspec.json.decode(data)["content_block"]
            yield from self._start(event.index, event.content_block)
        elif event.type == "content_block_stop":
            yield from self._close(event.index)
        elif event.type == "message_start" and event.message:
            self._count(event.message.usage)
        elif event.type == "message_delta":
            self._count(event.usage)
            self._end(event.delta.stop_reason if event.delta else None)
        elif event.type == "message":
            yield from self._take_whole(_decoded(data, _MESSAGE), msgspec.json.decode(data))
        elif event.type == "message_stop":
            self.complete = True
        elif event.type == "error":
            raise _error(event.error)

    def _take_whole(self, message: _Message, raw: dict[str, Any]) -> Iterator[Delta]:
        """Read a whole message, from a server that does not stream."""
        self._count(message.usage)
        for index, block in enumerate(message.content or ()):
            if _is_server_block(block.type):
                self._server_blocks[index] = raw["content"][index]
            yield from self._start(index, block)
            if block.thinking:
                yield ThinkingDelta(block.thinking)
            yield from self._close(index)
        self._end(message.stop_reason)
        self.complete = True

    def _end(self, reason: str | None) -> None:
        if reason:
            self._stop = _STOP_REASONS.get(reason, StopReason.OTHER)

    def _count(self, usage: _Usage | None) -> None:
        if usage:
            counts = msgspec.structs.asdict(usage)
            self._usage |= {name: value for name, value in counts.items() if value is not None}

    def _close(self, index: int) -> Iterator[Delta]:
        """Mark a block as complete. Calls of server tools are shown then: their arguments are known."""
        self._closed.add(index)
        if index in self._server_blocks:
            match self._server_block(index, "".join(self._pieces.get(index, ()))):
                case ServerToolUseBlock(id=call_id, name=name, input=input):
                    yield ServerToolStarted(call_id, name, input)
                case ServerToolResultBlock() as result:
                    name = self._server_tool(result.tool_use_id)
                    yield ServerToolFinished(result.tool_use_id, name, result.text, result.is_error)

    def _server_tool(self, call_id: str) -> str:
        """Return the name of the tool that a result belongs to. A paused reply has the call in an earlier message."""
        named = (each.get("name") for each in self._server_blocks.values() if each.get("id") == call_id)
        return _shown(next(named, ""))

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
        elif block.text:
            yield from self._add(index, _Delta("text_delta", text=block.text))

    def _add(self, index: int, delta: _Delta) -> Iterator[Delta]:
        if delta.type == "text_delta":
            self._pieces.setdefault(index, []).append(delta.text)
            self._blocks.setdefault(index, _Block("text"))
            yield TextDelta(delta.text)
        elif delta.type == "input_json_delta" and index in self._calls:
            call = self._calls[index]
            call.add(delta.partial_json)
            if delta.partial_json:
                yield ToolCallDelta(call.id, call.name, delta.partial_json)
        elif delta.type == "input_json_delta" and index in self._server_blocks:
            self._pieces.setdefault(index, []).append(delta.partial_json)
        elif delta.type == "citations_delta" and isinstance(delta.citation, dict):
            self._citations.setdefault(index, []).append(delta.citation)
        elif delta.type == "thinking_delta":
            self._pieces.setdefault(index, []).append(delta.thinking)
            yield ThinkingDelta(delta.thinking)
        elif delta.type == "signature_delta":
            self._signatures[index] = self._signatures.get(index, "") + delta.signature

    @property
    def done(self) -> bool:
        """Whether the rest of the stream can be ignored."""
        return self.complete

    def end(self) -> Iterator[Reply]:
        """Yield the complete reply."""
        blocks = [self._block(index, block) for index, block in sorted(self._blocks.items())]
        message = Message("assistant", tuple(block for block in blocks if block is not None))
        yield Reply(message, self._stop, self.usage)

    @property
    def usage(self) -> Usage:
        """The usage that the API has reported so far."""
        return _usage(self._usage)

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
        return self._server_block(index, text) if index in self._server_blocks else None

    def _text(self, index: int, text: str) -> TextBlock:
        raw = self._citations.get(index)
        if not raw:
            return TextBlock(text)
        found = (citation_of(each) for each in raw)
        return TextBlock(text, self._state({"citations": raw}), tuple(each for each in found if each))

    def _server_block(self, index: int, arguments: str) -> ServerToolUseBlock | ServerToolResultBlock:
        block = self._server_blocks[index]
        if arguments:
            block = block | {"input": finished_call("", "", arguments).input}
        if not str(block.get("type")).endswith("_tool_result"):
            kept = self._state({"block": block}) if self._is_whole(index, block) else None
            given = block.get("input")
            called_with = given if isinstance(given, dict) else {}
            return ServerToolUseBlock(str(block.get("id") or ""), _shown(block.get("name")), called_with, kept)
        content, call_id = block.get("content"), str(block.get("tool_use_id") or "")
        kept = self._state({"block": block})
        return ServerToolResultBlock(call_id, result_text_of(content), is_error_result(content), kept)

    def _is_whole(self, index: int, block: dict[str, Any]) -> bool:
        """Return whether a call can be sent back: the API refuses one that was cut off before it had a result."""
        if self._stop not in _CUTS:
            return True
        return any(each.get("tool_use_id") == block.get("id") for each in self._server_blocks.values())

    def _call(self, index: int) -> ToolUseBlock:
        """Return the call. If the reply was cut off in it, its arguments are marked invalid and it does not run."""
        call = self._calls[index].finish()
        text = self._calls[index].text
        was_cut = self._stop in _CUTS and index == max(self._blocks) and not (call.input and index in self._closed)
        return msgspec.structs.replace(call, input={}, invalid_input=text) if was_cut else call

    def _state(self, data: dict[str, Any]) -> ProviderState:
        return msgspec.structs.replace(self._origin, data=data)


def _usage(counts: dict[str, Any]) -> Usage:
    cached, written = counts.get("cache_read_input_tokens", 0), counts.get("cache_creation_input_tokens", 0)
    searches = counts.get("server_tool_use", {}).get("web_search_requests")
    return Usage(
        counts.get("input_tokens", 0) + cached + written,
        counts.get("output_tokens", 0),
        cached,
        written,
        web_searches=searches if isinstance(searches, int) else 0,
    )


def _error(error: Any) -> ProviderError:
    """Return the error for an error event in the stream."""
    message = error_message({"error": error}) or "an error without a message"
    kind = error.get("type", "") if isinstance(error, dict) else ""
    if kind in ("overloaded_error", "api_error", "rate_limit_error", "timeout_error"):
        return UnavailableError(f"Anthropic ended the stream with an error: {message}", retryable=True)
    return ProviderError(f"Anthropic ended the stream with an error: {message}")
