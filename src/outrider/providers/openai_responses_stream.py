"""Build a reply from the events of an OpenAI Responses stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec

from outrider.conversation.messages import (
    Block,
    Citation,
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
from outrider.errors import (
    IncompleteStreamError,
    ProviderError,
    RateLimitedError,
    RequestRefusedError,
    UnavailableError,
)
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
from outrider.providers.pictures import picture, picture_at
from outrider.providers.server_tools import result_text, source_lines, text_field
from outrider.providers.stream import finished_call, take_each
from outrider.providers.tool_search import SHOWN_NAME

_TEXT_DELTAS = ("response.output_text.delta", "response.refusal.delta")
_THINKING_DELTAS = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_CALL_DELTA = "response.function_call_arguments.delta"
_DELTAS = (*_TEXT_DELTAS, *_THINKING_DELTAS, _CALL_DELTA)
_ENDS = ("response.completed", "response.incomplete", "response.failed")
_INCOMPLETE = {"max_output_tokens": StopReason.MAX_TOKENS, "content_filter": StopReason.CONTENT_FILTER}


class _Event(msgspec.Struct, gc=False):
    """The fields of all events in one struct. A field that an event lacks keeps its default.

    They are loosely typed because an unknown kind of event may use a name for something else. Items and responses are
    decoded only where they are needed: the first events repeat all instructions and tools.
    """

    type: str = ""
    object: Any = ""
    """`response` in a whole response, from a server that does not stream."""
    status: Any = ""
    delta: Any = ""
    output_index: Any = 0
    summary_index: Any = 0
    item: msgspec.Raw = msgspec.Raw(b"{}")
    response: msgspec.Raw = msgspec.Raw(b"{}")
    error: Any = None
    code: Any = None
    message: Any = None


class _Response(msgspec.Struct, gc=False):
    """The fields of a response that are needed at its end."""

    output: list[msgspec.Raw] | None = None
    usage: dict[str, Any] | None = None
    incomplete_details: dict[str, Any] | None = None
    error: Any = None


class _Part(msgspec.Struct, gc=False):
    """A part of a message or of reasoning."""

    type: str = ""
    text: str | None = None
    refusal: str | None = None
    annotations: Any = None


class _Item(msgspec.Struct, gc=False):
    """The fields of messages, calls and reasoning in one struct."""

    type: str = ""
    id: str | None = None
    status: str | None = None
    phase: str | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    """The group of a deferred tool."""
    arguments: str | None = None
    summary: list[_Part] | None = None
    content: list[_Part] | None = None
    result: str | None = None
    """A picture in base64."""
    output_format: str | None = None
    raw: dict[str, Any] | None = None
    """A reasoning item, or one of a tool that the API runs, as it came."""

    @property
    def text(self) -> str:
        """The text, reasoning or arguments."""
        if self.type == "function_call":
            return self.arguments or ""
        parts = [part.text or part.refusal or "" for part in (*(self.summary or ()), *(self.content or ()))]
        return ("\n\n" if self.type == "reasoning" else "").join(filter(None, parts))

    @property
    def tool_use_id(self) -> str:
        """The id that the call's result refers to."""
        return self.call_id or self.id or ""


class _Kind(msgspec.Struct, gc=False):
    type: str = ""


_T = TypeVar("_T")
_EVENT = msgspec.json.Decoder(_Event)
_RESPONSE = msgspec.json.Decoder(_Response)
_KIND = msgspec.json.Decoder(_Kind)
_ITEM = msgspec.json.Decoder(_Item)
_RAW = msgspec.json.Decoder(dict[str, Any])
_FAILED = ("failed", "incomplete")
_SEARCH_CALL, _SEARCH_OUTPUT = "tool_search_call", "tool_search_output"
_SERVER_ITEMS = ("web_search_call", "code_interpreter_call", _SEARCH_CALL, _SEARCH_OUTPUT)
_DELTA_OF_ITEM = {"message": _TEXT_DELTAS[0], "reasoning": _THINKING_DELTAS[0], "function_call": _CALL_DELTA}


class IncomingReply:
    """A reply that is being received. The last event of an item counts: earlier ones are incomplete."""

    def __init__(self, provider: str, model: str, store: AttachmentStore | None = None) -> None:
        self.complete = False
        self._store = store
        self._provider = provider
        self._model = model
        self._started: dict[int, _Item] = {}
        self._pieces: dict[int, list[str]] = {}
        """The deltas of each item so far."""
        self._items: dict[int, _Item] = {}
        self._incomplete: StopReason | None = None
        self._usage: dict[str, Any] = {}

    take_all = take_each

    def take(self, data: bytes) -> Iterable[Delta]:
        """Read one event. It takes effect when the returned deltas are consumed."""
        if data.strip() in (b"", b"[DONE]"):
            return ()
        event = _decoded(data, _EVENT)
        if event.type in _DELTAS:
            return self._add(event.type, _index(event), str(event.delta or ""))
        if event.type == "response.reasoning_summary_part.added" and event.summary_index:
            return self._add(_THINKING_DELTAS[0], _index(event), "\n\n")
        if event.type == "response.output_item.added":
            return self._start(_index(event), _item(event.item))
        if event.type == "response.output_item.done":
            return self._take_item(_index(event), _item(event.item))
        if event.type in _ENDS:
            return self._end(event.type, _decoded(event.response, _RESPONSE))
        if event.object == "response" and (kind := f"response.{event.status}") in _ENDS:
            return self._end(kind, _decoded(data, _RESPONSE))
        if event.type == "error" or (event.error and not event.type):
            raise _error(event.error or {"code": event.code, "message": event.message}, self._model)
        return ()

    def _add(self, kind: str, index: int, piece: str) -> Iterator[Delta]:
        if not piece:
            return
        self._pieces.setdefault(index, []).append(piece)
        if kind in _TEXT_DELTAS:
            yield TextDelta(piece)
        elif kind in _THINKING_DELTAS:
            yield ThinkingDelta(piece)
        elif call := self._started.get(index):
            yield ToolCallDelta(call.tool_use_id, call.name or "", piece)

    def _start(self, index: int, item: _Item) -> Iterator[Delta]:
        if item.type in _DELTA_OF_ITEM:
            self._started[index] = item
        if item.type == "function_call":
            yield ToolCallDelta(item.tool_use_id, item.name or "", "")

    def _take_item(self, index: int, item: _Item) -> Iterator[Delta]:
        """Take a finished item. Yield its content now if there were no deltas of it."""
        self._items[index] = item
        if item.type in _SERVER_ITEMS:
            yield from self._shown(index, item)
        if index not in self._pieces and item.type in _DELTA_OF_ITEM:
            self._started[index] = item
            yield from self._add(_DELTA_OF_ITEM[item.type], index, item.text)

    def _shown(self, index: int, item: _Item) -> Iterator[Delta]:
        """Yield the beginning and the end of a call that the API runs. Two items tell of a search for tools."""
        (name, given), (text, _) = _server_call(item.raw or {}), _server_result(item.raw or {})
        call_id = item.id or ""
        if item.type == _SEARCH_OUTPUT:
            call_id = self._searched(index)
        else:
            yield ServerToolStarted(call_id, name, given)
        if item.type != _SEARCH_CALL:
            yield ServerToolFinished(call_id, name, result_text(text), item.status in _FAILED)

    def _searched(self, index: int) -> str:
        """Return the id of the search for tools that an output belongs to: the last one before it."""
        calls = [item.id for place, item in sorted(self._items.items()) if place < index and item.type == _SEARCH_CALL]
        return (calls[-1] if calls else "") or ""

    def _end(self, kind: str, response: _Response) -> Iterator[Delta]:
        self._usage = response.usage or {}
        if kind == "response.failed":
            raise _error(response.error, self._model)
        known = {item.id for item in self._items.values()}
        for index, item in enumerate(map(_item, response.output or ())):
            if index not in self._items and item.id not in known:
                yield from self._take_item(index, item)
        unfinished = self._started.keys() - self._items.keys()
        if kind == "response.incomplete":
            reason = (response.incomplete_details or {}).get("reason")
            self._incomplete = _INCOMPLETE.get(str(reason), StopReason.OTHER)
            self._items |= {index: self._cut_short(index) for index in unfinished}
        elif unfinished:
            raise IncompleteStreamError("OpenAI's reply has an unfinished item", retryable=True)
        self.complete = True

    def _cut_short(self, index: int) -> _Item:
        """Return an unfinished item with its deltas so far, and without its state, which may be incomplete."""
        item, text = self._started[index], "".join(self._pieces.get(index, ()))
        cut = _Item(item.type, call_id=item.tool_use_id, name=item.name, status="incomplete")
        cut.namespace = item.namespace
        cut.arguments, cut.content = text, [_Part(text=text)]
        return cut

    @property
    def done(self) -> bool:
        """Whether the rest of the stream can be ignored."""
        return self.complete

    def end(self) -> Iterator[Reply]:
        """Yield the complete reply."""
        items = self._settled_items()
        reasoned = any(item.type == "reasoning" for item in items)
        blocks: list[Block] = []
        follows = ""
        for item in items:
            if item.type in _SERVER_ITEMS:
                found = self._server_blocks(item, _state_data(item, follows, reasoned))
                if follows and getattr(found[0], "state", None) is None:
                    blocks[-1] = msgspec.structs.replace(blocks[-1], state=None)
                blocks += found
                follows = ""
                continue
            block = self._block(item, self._state(_state_data(item, follows, reasoned)))
            if block is not None:
                blocks.append(block)
            elif follows:
                # Reasoning cannot be sent back without the item that followed it.
                blocks[-1] = msgspec.structs.replace(blocks[-1], state=None)
            follows = item.id or "" if isinstance(block, ThinkingBlock) else ""
        yield Reply(Message("assistant", tuple(blocks)), self._stop_reason(items), self.usage)

    def _settled_items(self) -> list[_Item]:
        """Return the items in order, without a search for tools that has no output: the API refuses one alone."""
        placed = sorted(self._items.items())
        answered = {self._searched(place) for place, item in placed if item.type == _SEARCH_OUTPUT} - {""}
        for place, item in placed:
            if item.type == _SEARCH_OUTPUT:
                item.call_id = self._searched(place)
        pair = (_SEARCH_CALL, _SEARCH_OUTPUT)
        return [item for _, item in placed if item.type not in pair or (item.call_id or item.id) in answered]

    @property
    def usage(self) -> Usage:
        """The usage that the API has reported so far."""
        searches = [item for item in self._items.values() if item.type == "web_search_call"]
        ran = sum(text_field((item.raw or {}).get("action"), "type") in ("", "search") for item in searches)
        return msgspec.structs.replace(_usage(self._usage), web_searches=ran)

    def _server_blocks(self, item: _Item, state: dict[str, Any]) -> list[Block]:
        """Return the call and the result of a tool that the API ran, and the pictures that it made."""
        raw = item.raw or {}
        # The API refuses the item without the reasoning before it.
        order = {"follows": state.get("follows"), "reasoned": bool(state.get("id"))}
        kept = self._state({"item": raw, **{name: value for name, value in order.items() if value}})
        if raw.get("type") == "web_search_call" and not text_field(raw.get("action"), "type"):
            kept = None  # the API would refuse it
        name, given = _server_call(raw)
        text, pictures = _server_result(raw)
        if item.type == _SEARCH_CALL:
            return [ServerToolUseBlock(item.id or "", name, given, kept)]
        if item.type == _SEARCH_OUTPUT:
            return [ServerToolResultBlock(item.call_id or "", result_text(text), item.status in _FAILED, kept)]
        own = self._state({"item": None}) if kept else None
        return [
            ServerToolUseBlock(item.id or "", name, given, kept),
            ServerToolResultBlock(item.id or "", result_text(text), item.status in _FAILED, own),
            *(picture_at(url, self._store) for url in pictures),
        ]

    def _block(self, item: _Item, state: ProviderState | None) -> Block | None:
        match item.type:
            case "message":
                return self._text(item, state) if item.text.strip() else None
            case "function_call":
                return _call(item, state)
            case "reasoning":
                raw = self._state(item.raw if item.raw and is_replayable(item.raw) else {})
                return ThinkingBlock(item.text, raw) if item.text or raw else None
            case "image_generation_call" if item.result:
                data = (state.data if state else {}) | {"id": item.id or ""}
                return picture(item.result, f"image/{item.output_format or 'png'}", self._store, self._state(data))
        return None

    def _text(self, item: _Item, state: ProviderState | None) -> TextBlock:
        raw, cited, before = [], [], 0
        for part in item.content or ():
            listed = part.annotations if part.text and isinstance(part.annotations, list) else []
            found = [each for each in listed if isinstance(each, dict)]
            raw += found
            cited += [each for each in (_citation(each, before) for each in found) if each]
            before += len(part.text or part.refusal or "")
        if raw and state and len(item.content or ()) == 1:
            state = msgspec.structs.replace(state, data=state.data | {"annotations": raw})
        return TextBlock(item.text, state, tuple(cited))

    def _state(self, data: dict[str, Any]) -> ProviderState | None:
        return ProviderState(self._provider, self._model, data) if data else None

    def _stop_reason(self, items: list[_Item]) -> StopReason:
        if self._incomplete:
            return self._incomplete
        if any(part.type == "refusal" for item in items for part in item.content or ()):
            return StopReason.REFUSAL
        return StopReason.TOOL_USE if any(item.type == "function_call" for item in items) else StopReason.END


def is_replayable(reasoning: dict[str, Any]) -> bool:
    """Return whether a reasoning item is complete. The API stores nothing, so an id alone is not enough."""
    return bool(reasoning.get("id") and (reasoning.get("encrypted_content") or reasoning.get("content")))


def _decoded(data: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[_T]) -> _T:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise IncompleteStreamError(f"OpenAI sent an event that cannot be decoded: {error}", retryable=True) from None


def _index(event: _Event) -> int:
    return event.output_index if isinstance(event.output_index, int) else 0


def _item(raw: msgspec.Raw) -> _Item:
    """Decode an item. Of an unknown kind, return only the kind."""
    kind = _decoded(raw, _KIND).type
    if kind in _SERVER_ITEMS:
        found = _decoded(raw, _RAW)
        found.pop("created_by", None)  # a field of replies that requests do not take
        return _Item(kind, text_field(found, "id"), text_field(found, "status"), raw=found)
    if kind not in _DELTA_OF_ITEM and kind != "image_generation_call":
        return _Item(kind)
    item = _decoded(raw, _ITEM)
    item.raw = _decoded(raw, _RAW) if kind == "reasoning" else None
    return item


def _server_call(raw: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the tool that an item is a call of, and its arguments."""
    if raw.get("type") == "code_interpreter_call":
        return "code_execution", {"code": text_field(raw, "code")}
    if raw.get("type") in (_SEARCH_CALL, _SEARCH_OUTPUT):
        searched = raw.get("arguments")
        return SHOWN_NAME, searched if isinstance(searched, dict) else {}
    action = raw.get("action")
    names = ("query", "queries", "url", "pattern")
    given = {name: action[name] for name in names if action.get(name)} if isinstance(action, dict) else {}
    if "query" in given:
        given.pop("queries", None)
    return "web_search" if text_field(action, "type") in ("", "search") else "web_fetch", given


def _server_result(raw: dict[str, Any]) -> tuple[str, list[str]]:
    """Return the text of a result, and the addresses of the pictures."""
    if raw.get("type") == _SEARCH_OUTPUT:
        return "\n".join(f"- {name}" for name in _loaded(raw.get("tools"))), []
    outputs = raw.get("outputs")
    printed = [each for each in outputs if isinstance(each, dict)] if isinstance(outputs, list) else []
    action = raw.get("action")
    sources = action.get("sources") if isinstance(action, dict) else None
    found = [Citation(text_field(each, "url")) for each in sources] if isinstance(sources, list) else []
    text = "\n".join([*(text_field(each, "logs") for each in printed), source_lines(found)])
    return text.strip("\n"), [url for each in printed if (url := text_field(each, "url"))]


def _loaded(tools: Any) -> Iterator[str]:
    """Yield the names of the tools that a search has found, also of those in groups."""
    for tool in tools if isinstance(tools, list) else ():
        if text_field(tool, "type") == "namespace":
            yield from _loaded(tool.get("tools"))
        elif name := text_field(tool, "name"):
            yield name


def _citation(raw: dict[str, Any], before: int) -> Citation | None:
    """Return the source of an annotation. A file in a container has no address: its ids are in the title."""
    start, end = raw.get("start_index"), raw.get("end_index")
    place = (start + before, end + before) if isinstance(start, int) and isinstance(end, int) else (None, None)
    if raw.get("type") == "url_citation":
        return Citation(text_field(raw, "url"), text_field(raw, "title"), "", *place)
    if file := text_field(raw, "file_id"):
        where = "/".join(filter(None, (text_field(raw, "container_id"), file)))
        return Citation("", f"{text_field(raw, 'filename') or 'file'} ({where})", "", *place)
    return None


def _call(item: _Item, state: ProviderState | None) -> ToolUseBlock:
    if item.status == "incomplete":
        # The call is incomplete, so it must not run, even if its arguments look valid.
        return ToolUseBlock(item.tool_use_id, item.name or "", {}, invalid_input=item.text, state=state)
    return finished_call(item.tool_use_id, item.name or "", item.text, state)


def _state_data(item: _Item, follows: str, reasoned: bool) -> dict[str, Any]:
    """Return the state to send back with a text or a call: phase, group, and beside reasoning its id and position."""
    kept = {"phase": item.phase, "namespace": item.namespace}
    if reasoned:
        kept |= {"id": item.id, "status": item.status, "follows": follows}
    return {name: value for name, value in kept.items() if value}


def _usage(usage: dict[str, Any]) -> Usage:
    input_details, output_details = usage.get("input_tokens_details"), usage.get("output_tokens_details")
    return Usage(
        _count(usage, "input_tokens"),
        _count(usage, "output_tokens"),
        _count(input_details, "cached_tokens"),
        _count(input_details, "cache_write_tokens"),
        _count(output_details, "reasoning_tokens"),
    )


def _count(counts: Any, name: str) -> int:
    value = counts.get(name) if isinstance(counts, dict) else None
    return value if isinstance(value, int) else 0


def _error(error: Any, model: str) -> ProviderError:
    """Return the error for an error event in the stream."""
    message = (error_message({"error": error}) if error else "") or "an error without a message"
    kinds = {str(error.get("code")), str(error.get("type"))} if isinstance(error, dict) else set()
    if "context_length_exceeded" in kinds:
        return RequestRefusedError(
            f"the conversation is too long for {model} ({message}); start a new one or send less"
        )
    if "insufficient_quota" in kinds:
        return RateLimitedError(f"this key has no quota left with OpenAI ({message}); check the plan and its billing")
    if kinds & {"rate_limit_exceeded", "too_many_requests"}:
        return RateLimitedError(f"OpenAI received too many requests ({message})", retryable=True)
    if kinds & {"server_error", "server_is_overloaded", "overloaded_error", "timeout"}:
        return UnavailableError(f"OpenAI ended the stream with an error: {message}", retryable=True)
    if any(kind.startswith(("invalid_", "image_")) for kind in kinds):
        return RequestRefusedError(f"OpenAI refused the request: {message}")
    return ProviderError(f"OpenAI ended the stream with an error: {message}")
