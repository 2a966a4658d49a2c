"""Build a reply from the events of an OpenAI Responses stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from outrider import errors
from outrider.conversation.messages import (
    Block,
    Message,
    ProviderState,
    RawBlock,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
)
from outrider.conversation.store import AttachmentStore
from outrider.conversation.usage import Usage
from outrider.providers.base import Reply, StopReason
from outrider.providers.deltas import (
    Delta,
    ServerToolFinished,
    ServerToolStarted,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from outrider.providers.rendering.server_tools import result_text, text_field
from outrider.providers.streams import openai_responses_items as wire
from outrider.providers.streams.pictures import picture, picture_at
from outrider.providers.streams.stream import OneByOne, count_of, decode_event
from outrider.providers.transport.api_errors import error_message

_TEXT_DELTAS = ("response.output_text.delta", "response.refusal.delta")
_THINKING_DELTAS = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_CALL_DELTAS = ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta")
_DELTAS = (*_TEXT_DELTAS, *_THINKING_DELTAS, *_CALL_DELTAS)
_ENDS = ("response.completed", "response.incomplete", "response.failed")
_INCOMPLETE = {
    "max_output_tokens": StopReason.MAX_TOKENS,
    "max_messages": StopReason.MAX_TOKENS,
    "content_filter": StopReason.CONTENT_FILTER,
    "steered": StopReason.PAUSE,  # stopped at a safe place, to be continued
}


class _Event(msgspec.Struct, gc=False):
    """The fields of all events in one struct. A field that an event lacks keeps its default.

    They are loosely typed because an unknown kind of event may use a name for something else. Responses are decoded
    only where they are needed: the first events repeat all instructions and tools.
    """

    type: str = ""
    object: Any = ""  # `response` in a whole response, from a server that does not stream
    status: Any = ""
    delta: Any = ""
    output_index: Any = 0
    summary_index: Any = 0
    item: Any = None
    response: msgspec.Raw = msgspec.Raw(b"{}")
    error: Any = None
    code: Any = None
    message: Any = None


class _Response(msgspec.Struct, gc=False):
    output: list[Any] | None = None
    usage: dict[str, Any] | None = None
    incomplete_details: dict[str, Any] | None = None
    error: Any = None


_EVENT = msgspec.json.Decoder(_Event)
_RESPONSE = msgspec.json.Decoder(_Response)
_DELTA_OF_ITEM = {
    "message": _TEXT_DELTAS[0],
    "reasoning": _THINKING_DELTAS[0],
    "function_call": _CALL_DELTAS[0],
    wire.CUSTOM_CALL: _CALL_DELTAS[1],
}


class IncomingReply(OneByOne):
    """A reply that is being received. The last event of an item counts: earlier ones are incomplete."""

    def __init__(self, origin: ProviderState, store: AttachmentStore | None = None) -> None:
        super().__init__(origin)
        self._store = store
        self._started: dict[int, wire.Item] = {}
        self._pieces: dict[int, list[str]] = {}  # the deltas of each item so far
        self._items: dict[int, wire.Item] = {}
        self._incomplete: StopReason | None = None
        self._reason = ""  # why the reply is incomplete, in the words of the API
        self._usage: dict[str, Any] = {}

    def take(self, data: bytes) -> Iterable[Delta]:
        if data.strip() in (b"", b"[DONE]"):
            return ()
        event = decode_event(data, _EVENT, "OpenAI")
        if event.type in _DELTAS:
            return self._add(event.type, _index(event), event.delta if isinstance(event.delta, str) else "")
        if event.type == "response.reasoning_summary_part.added" and event.summary_index:
            return self._add(_THINKING_DELTAS[0], _index(event), "\n\n")
        if event.type == "response.output_item.added":
            return self._start(_index(event), wire.decode_item(event.item))
        if event.type == "response.output_item.done":
            return self._take_item(_index(event), wire.decode_item(event.item))
        if event.type in _ENDS:
            return self._end(event.type, decode_event(event.response, _RESPONSE, "OpenAI"))
        if event.object == "response" and (kind := f"response.{event.status}") in _ENDS:
            return self._end(kind, decode_event(data, _RESPONSE, "OpenAI"))
        if event.type == "error" or (event.error and not event.type):
            raise _error(event.error or {"code": event.code, "message": event.message}, self._origin.model)
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

    def _start(self, index: int, item: wire.Item) -> Iterator[Delta]:
        if item.type in _DELTA_OF_ITEM:
            self._started[index] = item
        if item.type in wire.CALLS:
            yield ToolCallDelta(item.tool_use_id, item.name or "", "")

    def _take_item(self, index: int, item: wire.Item) -> Iterator[Delta]:
        """Take a finished item. Yield its content now if there were no deltas of it."""
        self._items[index] = item
        if item.type in wire.SERVER_ITEMS:
            yield from self._shown(index, item)
        if item.type == "image_generation_call" and not item.result:
            yield TextDelta(wire.picture_failure(item))
        if index not in self._pieces and item.type in _DELTA_OF_ITEM:
            self._started[index] = item
            yield from self._add(_DELTA_OF_ITEM[item.type], index, item.text)

    def _shown(self, index: int, item: wire.Item) -> Iterator[Delta]:
        """Yield the beginning and the end of a call that the API runs. Two items tell of a search for tools."""
        (name, given), (text, _) = wire.server_call(item.raw or {}), wire.server_result(item.raw or {})
        call_id = item.id or ""
        if item.type == wire.SEARCH_OUTPUT:
            call_id = self._searched(index)
        else:
            yield ServerToolStarted(call_id, name, given)
        if item.type != wire.SEARCH_CALL:
            yield ServerToolFinished(call_id, name, result_text(text), item.status in wire.FAILED)

    def _searched(self, index: int) -> str:
        """Return the id of the search for tools that an output belongs to: the last one before it."""
        calls = [
            item.id for place, item in sorted(self._items.items()) if place < index and item.type == wire.SEARCH_CALL
        ]
        return (calls[-1] if calls else "") or ""

    def _end(self, kind: str, response: _Response) -> Iterator[Delta]:
        self._usage = response.usage or {}
        if kind == "response.failed":
            raise _error(response.error, self._origin.model)
        known = {item.id for item in self._items.values()}
        for index, item in enumerate(map(wire.decode_item, response.output or ())):
            if index not in self._items and not (item.id and item.id in known):
                yield from self._take_item(index, item)
        unfinished = self._started.keys() - self._items.keys()
        if kind == "response.incomplete":
            self._reason = text_field(response.incomplete_details, "reason")
            self._incomplete = _INCOMPLETE.get(self._reason, StopReason.OTHER)
            self._items |= {index: self._cut_short(index) for index in unfinished}
        elif unfinished:
            raise errors.IncompleteStreamError("OpenAI's reply has an unfinished item", retryable=True)
        self.complete = True

    def _cut_short(self, index: int) -> wire.Item:
        """Return an unfinished item with its deltas so far, and without its state, which may be incomplete."""
        item, text = self._started[index], "".join(self._pieces.get(index, ()))
        cut = wire.Item(item.type, call_id=item.tool_use_id, name=item.name, status="incomplete")
        cut.namespace = item.namespace
        cut.arguments, cut.input, cut.content = text, text, [wire.ItemPart(text=text)]
        return cut

    def end(self) -> Iterator[Reply]:
        items = self._settled_items()
        reasoned = any(item.type == "reasoning" for item in items)
        blocks: list[Block] = []
        follows = ""
        for item in items:
            found = self._blocks_of(item, wire.state_data(item, follows, reasoned))
            if follows and not (found and getattr(found[0], "state", None)):
                # Reasoning cannot be sent back without the item that followed it.
                blocks[-1] = msgspec.structs.replace(blocks[-1], state=None)
            blocks += found
            follows = item.id or "" if found and isinstance(found[-1], ThinkingBlock) else ""
        detail = self._reason if self._incomplete is StopReason.OTHER else ""
        yield Reply(Message("assistant", tuple(blocks)), self._stop_reason(items), self.usage, detail)

    def _settled_items(self) -> list[wire.Item]:
        """Return the items in order, without a search for tools that has no output: the API refuses one alone."""
        placed = sorted(self._items.items())
        answered = {self._searched(place) for place, item in placed if item.type == wire.SEARCH_OUTPUT} - {""}
        for place, item in placed:
            if item.type == wire.SEARCH_OUTPUT:
                item.call_id = self._searched(place)
        pair = (wire.SEARCH_CALL, wire.SEARCH_OUTPUT)
        return [item for _, item in placed if item.type not in pair or (item.call_id or item.id) in answered]

    @property
    def usage(self) -> Usage:
        searches = [item for item in self._items.values() if item.type == "web_search_call"]
        ran = sum(text_field((item.raw or {}).get("action"), "type") in ("", "search") for item in searches)
        # With tools of the API, the input is the sum of several steps, and the API does not tell the last one.
        is_sum = any(item.type not in wire.PLAIN_ITEMS for item in self._items.values())
        context = 0 if is_sum else None
        return msgspec.structs.replace(_usage(self._usage), web_searches=ran, context_tokens=context)

    def _kept(self, item: wire.Item, state: dict[str, Any]) -> ProviderState | None:
        """Return the state of an item that goes back as it came. The API refuses it without the reasoning before it."""
        order = {"follows": state.get("follows"), "reasoned": bool(state.get("id"))}
        data = {"item": item.raw, **{name: value for name, value in order.items() if value}}
        return self._state_of(data) if item.raw else None

    def _server_blocks(self, item: wire.Item, state: dict[str, Any]) -> list[Block]:
        """Return the call and the result of a tool that the API ran, and the pictures that it made."""
        raw, kept = item.raw or {}, self._kept(item, state)
        if raw.get("type") == "web_search_call" and not text_field(raw.get("action"), "type"):
            kept = None  # the API would refuse it
        name, given = wire.server_call(raw)
        text, pictures = wire.server_result(raw)
        if item.type == wire.SEARCH_CALL:
            return [ServerToolUseBlock(item.id or "", name, given, kept)]
        if item.type == wire.SEARCH_OUTPUT:
            return [ServerToolResultBlock(item.call_id or "", result_text(text), item.status in wire.FAILED, kept)]
        own = self._state_of({"item": None}) if kept else None
        return [
            ServerToolUseBlock(item.id or "", name, given, kept),
            ServerToolResultBlock(item.id or "", result_text(text), item.status in wire.FAILED, own),
            *(picture_at(url, self._store) for url in pictures),
        ]

    def _blocks_of(self, item: wire.Item, data: dict[str, Any]) -> list[Block]:
        """Return the blocks of an item. One that we do not know is kept as it came."""
        match item.type:
            case kind if kind in wire.SERVER_ITEMS:
                return self._server_blocks(item, data)
            case "message" if item.text.strip():
                return [self._text(item, self._state_of(data))]
            case "function_call":
                return [wire.finished_call_of(item, self._state_of(data))]
            case "custom_tool_call":
                return [wire.finished_call_of(item, self._kept(item, data))]
            case "reasoning":
                raw = self._state_of(item.raw if item.raw and wire.is_replayable(item.raw) else {})
                return [ThinkingBlock(item.text, raw)] if item.text or raw else []
            case "image_generation_call" if item.result:
                state = self._state_of(data | {"id": item.id or ""})
                return [picture(item.result, f"image/{item.output_format or 'png'}", self._store, state)]
            case "image_generation_call":
                return [TextBlock(wire.picture_failure(item))]
        kept = self._kept(item, data) if item.type and not _is_empty(item) else None
        return [RawBlock(item.type, kept)] if kept else []

    def _text(self, item: wire.Item, state: ProviderState | None) -> TextBlock:
        raw, cited, before = [], [], 0
        for part in item.content or ():
            listed = part.annotations if part.text and isinstance(part.annotations, list) else []
            found = [each for each in listed if isinstance(each, dict)]
            raw += found
            cited += [each for each in (wire.citation(each, before) for each in found) if each]
            before += len(part.text or part.refusal or "")
        if raw and state and len(item.content or ()) == 1:
            state = msgspec.structs.replace(state, data=state.data | {"annotations": raw})
        return TextBlock(item.text, state, tuple(cited))

    def _state_of(self, data: dict[str, Any]) -> ProviderState | None:
        return self._state(data) if data else None

    def _stop_reason(self, items: list[wire.Item]) -> StopReason:
        if self._incomplete:
            return self._incomplete
        if any(part.type == "refusal" for item in items for part in item.content or ()):
            return StopReason.REFUSAL
        return StopReason.TOOL_USE if any(item.type in wire.CALLS for item in items) else StopReason.END


def _is_empty(item: wire.Item) -> bool:
    """Return whether an item is a message in which there is nothing but blank text."""
    parts = isinstance((item.raw or {}).get("content") or [], list)
    said = all(part.text is not None or part.refusal is not None for part in item.content or ())
    return item.type == "message" and parts and said


def _index(event: _Event) -> int:
    return event.output_index if isinstance(event.output_index, int) else 0


def _usage(usage: dict[str, Any]) -> Usage:
    input_details, output_details = usage.get("input_tokens_details"), usage.get("output_tokens_details")
    return Usage(
        count_of(usage, "input_tokens"),
        count_of(usage, "output_tokens"),
        count_of(input_details, "cached_tokens"),
        count_of(input_details, "cache_write_tokens"),
        count_of(output_details, "reasoning_tokens"),
    )


def _error(error: Any, model: str) -> errors.ProviderError:
    message = (error_message({"error": error}) if error else "") or "an error without a message"
    fields = error if isinstance(error, dict) else {}
    kinds = {text_field(fields, "code"), text_field(fields, "type")} - {""}
    if said := text_field(fields.get("misalignment"), "detailed_explanation"):
        message = f"{message} ({said})"
    if "context_length_exceeded" in kinds:
        return errors.RequestRefusedError(
            f"the conversation is too long for {model} ({message}); start a new one or send less"
        )
    if "insufficient_quota" in kinds:
        return errors.RateLimitedError(
            f"this key has no quota left with OpenAI ({message}); check the plan and its billing"
        )
    if kinds & {"rate_limit_exceeded", "too_many_requests"}:
        return errors.RateLimitedError(f"OpenAI received too many requests ({message})", retryable=True)
    if kinds & {"server_error", "server_is_overloaded", "overloaded_error", "timeout", "vector_store_timeout"}:
        return errors.UnavailableError(f"OpenAI ended the stream with an error: {message}", retryable=True)
    if any(kind.startswith(("invalid_", "image_")) for kind in kinds):
        return errors.RequestRefusedError(f"OpenAI refused the request: {message}")
    if named := next((kind for kind in sorted(kinds) if "policy" in kind), ""):
        return errors.RequestRefusedError(f"OpenAI refused the request by its rules ({named}): {message}")
    return errors.ProviderError(f"OpenAI ended the stream with an error: {message}")
