"""Anthropic Messages API: Claude."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, ClassVar, TypeVar

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
from outrider.conversation.store import AttachmentStore
from outrider.errors import IncompleteStreamError, ProviderError, UnavailableError
from outrider.providers.anthropic_server_tools import citation_of, is_error_result, result_text_of
from outrider.providers.api import ApiProvider, error_message
from outrider.providers.base import ModelSettings, Reply, Request, StopReason
from outrider.providers.body import Body
from outrider.providers.deltas import (
    Delta,
    ServerToolFinished,
    ServerToolStarted,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from outrider.providers.output_schemas import ANTHROPIC
from outrider.providers.render import (
    NO_FILES,
    Family,
    File,
    Part,
    Result,
    Title,
    UserMessage,
    object_schema,
    reminder_text,
    safe_id,
    safe_name,
)
from outrider.providers.server_tools import described
from outrider.providers.stream import CallAssembler, Incoming, finished_call, take_each
from outrider.providers.transcript import Transcript

VERSION = "2023-06-01"
EPHEMERAL = {"type": "ephemeral"}

_STOP_REASONS = {
    "end_turn": StopReason.END,
    "stop_sequence": StopReason.END,
    "tool_use": StopReason.TOOL_USE,
    "max_tokens": StopReason.MAX_TOKENS,
    "refusal": StopReason.REFUSAL,
    "pause_turn": StopReason.PAUSE,
    "model_context_window_exceeded": StopReason.CONTEXT_EXCEEDED,
}


_DOMAINS = ("allowed_domains", "blocked_domains", "max_uses")
_SERVER_TOOLS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    # The first versions: every model that has the tools takes them, and none of them needs another tool beside it.
    "web_search": ({"type": "web_search_20250305", "name": "web_search"}, _DOMAINS),
    "web_fetch": ({"type": "web_fetch_20250910", "name": "web_fetch", "citations": {"enabled": True}}, _DOMAINS),
    "code_execution": ({"type": "code_execution_20250825", "name": "code_execution"}, ()),
}
_LEAST_BUDGET = 1024
"""The smallest budget for thinking that the API takes."""
_CUTS = (StopReason.MAX_TOKENS, StopReason.CONTEXT_EXCEEDED, StopReason.REFUSAL)
"""Stop reasons that may cut off a call."""


class Anthropic(ApiProvider):
    """Claude through the Messages API."""

    prefix = "anthropic"
    label = "Anthropic"
    key_variables: ClassVar[tuple[str, ...]] = ("ANTHROPIC_API_KEY",)
    base_variable = "ANTHROPIC_BASE_URL"
    default_base = "https://api.anthropic.com"
    titles: ClassVar[Mapping[Family, Title]] = {"pdf": "caption", "text": "caption"}
    dialect = ANTHROPIC

    @property
    def route(self) -> str:
        """Empty: signatures are valid wherever the same provider is reached."""
        return ""

    def url(self) -> str:
        """Return the URL of a request."""
        return f"{self.base_url}/v1/messages"

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers of a request."""
        return {"x-api-key": key, "anthropic-version": VERSION, "content-type": "application/json"}

    def body(self, request: Request, transcript: Transcript) -> Body:
        """Return the request. Cache marks are outside of the messages, so that these stay as they were rendered."""
        head = self._head()
        if request.system:
            head["system"] = [{"type": "text", "text": request.system, "cache_control": EPHEMERAL}]
        if request.tools or request.server_tools:
            head["tools"] = self.tools_once(request, _tools)
        head |= self._settings(request.settings) | self._options | request.settings.options
        if schema := self.output_schema(request):
            # From the first turn on: changing it invalidates the prompt cache. Calls and thinking are not held to it.
            given = {"format": {"type": "json_schema", "schema": schema}}
            head["output_config"] = given | head.get("output_config", {})
        # Consecutive user messages count as one, so the reminder can be a message of its own.
        extra = b""
        if request.reminder:
            text = {"type": "text", "text": reminder_text(request.reminder)}
            extra = msgspec.json.encode({"role": "user", "content": [text]})
        return transcript.enclosed(msgspec.json.encode(head)[:-1] + b',"messages":[', b"]}", extra)

    def _head(self) -> dict[str, Any]:
        """Return the fields that every request has."""
        return {
            "model": self.model,
            "max_tokens": self.reply_tokens,
            "stream": True,
            "cache_control": EPHEMERAL,
        }

    def _settings(self, settings: ModelSettings) -> dict[str, Any]:
        """Return the settings as fields of a request."""
        fields = self.effort_fields(settings).copy()
        if settings.temperature is not None:
            fields["temperature"] = settings.temperature
        if settings.max_tokens:
            fields["max_tokens"] = settings.max_tokens
        if choice := settings.tool_choice:
            kinds = {"auto": "auto", "required": "any", "none": "none"}
            fields["tool_choice"] = {"type": kinds[choice]} if choice in kinds else {"type": "tool", "name": choice}
            if choice not in ("auto", "none"):
                fields.pop("thinking", None)  # the API refuses to think before a call that it must make
        thinking = fields.get("thinking", {})
        if thinking.get("budget_tokens", 0) >= (longest := settings.max_tokens or self.reply_tokens):
            fields["thinking"] = thinking | {"budget_tokens": max(_LEAST_BUDGET, longest // 2)}
        return fields

    def user_items(self, message: UserMessage) -> Iterable[Any]:
        """Return one message, or none if it is empty."""
        content = [*map(_result, message.results), *map(_part, message.moved), *map(_part, message.content)]
        return [{"role": "user", "content": content}] if content else ()

    def assistant_items(
        self, message: Message, files: Mapping[str, File] = NO_FILES, *, prefix_changed: bool = False
    ) -> Iterable[Any]:
        """Return one message, or none if nothing of it can be replayed."""
        content = list(self._assistant_content(message, prefix_changed))
        return [{"role": "assistant", "content": content}] if content else ()

    def _assistant_content(self, message: Message, prefix_changed: bool) -> Iterator[dict[str, Any]]:
        for block in message.content:
            match block:
                case TextBlock(text=text, state=state):
                    cited = _kept(state, "citations") if self.is_own(state) else None
                    yield {"type": "text", "text": text} | ({"citations": cited} if cited else {})
                case ServerToolUseBlock(state=state) | ServerToolResultBlock(state=state):
                    if item := _kept(state, "block"):
                        yield item
                case ToolUseBlock():
                    yield {
                        "type": "tool_use",
                        "id": safe_id(block.id),
                        "name": safe_name(block.name),
                        "input": block.input,
                    }
                case ThinkingBlock(thinking=thinking, state=state) if self.is_own(state) and not prefix_changed:
                    # The signature covers all that comes before: it is invalid once that was changed.
                    if item := _thinking(thinking, state and state.data):
                        yield item

    def incoming(self, tools: Collection[str] = (), store: AttachmentStore | None = None) -> Incoming:
        """Return an object that builds the reply from the events."""
        return _Incoming(ProviderState(self.prefix, self.model, None, self.route))


def _kept(state: ProviderState | None, name: str) -> Any:
    """Return what the state has under a name, or None."""
    return state.data.get(name) if state and isinstance(state.data, dict) else None


def _thinking(thinking: str, data: Any) -> dict[str, Any] | None:
    """Return a thinking block as it came; None if it has no signature."""
    if not isinstance(data, dict):
        return None
    if redacted := data.get("redacted"):
        return {"type": "redacted_thinking", "data": redacted}
    signature = data.get("signature")
    return {"type": "thinking", "thinking": thinking, "signature": signature} if signature else None


def provider(model: str) -> Anthropic:
    """Return the adapter for a model name."""
    return Anthropic(model)


def _tools(request: Request) -> Iterator[dict[str, Any]]:
    tools = described(request.server_tools, "Anthropic", _SERVER_TOOLS)
    for spec in request.tools:
        tools.append(
            {"name": spec.name, "description": spec.description, "input_schema": object_schema(spec.parameters)}
        )
    yield from tools[:-1]
    yield tools[-1] | {"cache_control": EPHEMERAL}


def _result(result: Result) -> dict[str, Any]:
    rendered: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": safe_id(result.call_id),
        "content": [_part(part) for part in result.parts],
    }
    return rendered | {"is_error": True} if result.is_error else rendered


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if part.family == "image":
        if part.url:
            return {"type": "image", "source": {"type": "url", "url": part.url}}
        return {"type": "image", "source": {"type": "base64", "media_type": part.mime_type, "data": part.base64}}
    context = {"context": part.caption.description} if part.caption.description else {}
    return {"type": "document", "title": part.name, **context, "source": _document(part)}


def _document(file: File) -> dict[str, Any]:
    if file.family == "text":
        return {"type": "text", "media_type": "text/plain", "data": file.text}
    if file.url:
        return {"type": "url", "url": file.url}
    return {"type": "base64", "media_type": file.mime_type, "data": file.base64}


# The stream


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


def _decoded(data: bytes, decoder: msgspec.json.Decoder[_T]) -> _T:
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise ProviderError(f"Anthropic sent an event that cannot be decoded: {error}") from None
    except (ValueError, RecursionError) as error:
        raise IncompleteStreamError(
            f"Anthropic sent an event that cannot be decoded: {error}", retryable=True
        ) from None


class _Incoming:
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
        return str(next(named, "") or "")

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
            return ServerToolUseBlock(str(block.get("id") or ""), str(block.get("name") or ""), called_with, kept)
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
