"""Build a reply from the events of an OpenAI Responses stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from outrider.conversation.messages import (
    Block,
    Message,
    ProviderState,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
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
from outrider.providers.openai_responses_items import (
    FAILED,
    SEARCH_CALL,
    SEARCH_OUTPUT,
    SERVER_ITEMS,
    Item,
    ItemPart,
    citation,
    decode_item,
    decoded,
    finished_call_of,
    is_replayable,
    server_call,
    server_result,
    state_data,
)
from outrider.providers.pictures import picture, picture_at
from outrider.providers.server_tools import result_text, text_field
from outrider.providers.stream import take_each

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


_EVENT = msgspec.json.Decoder(_Event)
_RESPONSE = msgspec.json.Decoder(_Response)
_DELTA_OF_ITEM = {"message": _TEXT_DELTAS[0], "reasoning": _THINKING_DELTAS[0], "function_call": _CALL_DELTA}


class IncomingReply:
    """A reply that is being received. The last event of an item counts: earlier ones are incomplete."""

    def __init__(self, provider: str, model: str, store: AttachmentStore | None = None) -> None:
        self.complete = False
        self._store = store
        self._provider = provider
        self._model = model
        self._started: dict[int, Item] = {}
        self._pieces: dict[int, list[str]] = {}
        """The deltas of each item so far."""
        self._items: dict[int, Item] = {}
        self._incomplete: StopReason | None = None
        self._usage: dict[str, Any] = {}

    take_all = take_each

    def take(self, data: bytes) -> Iterable[Delta]:
        """Read one event. It takes effect when the returned deltas are consumed."""
        if data.strip() in (b"", b"[DONE]"):
            return ()
        event = decoded(data, _EVENT)
        if event.type in _DELTAS:
            return self._add(event.type, _index(event), str(event.delta or ""))
        if event.type == "response.reasoning_summary_part.added" and event.summary_index:
            return self._add(_THINKING_DELTAS[0], _index(event), "\n\n")
        if event.type == "response.output_item.added":
            return self._start(_index(event), decode_item(event.item))
        if event.type == "response.output_item.done":
            return self._take_item(_index(event), decode_item(event.item))
        if event.type in _ENDS:
            return self._end(event.type, decoded(event.response, _RESPONSE))
        if event.object == "response" and (kind := f"response.{event.status}") in _ENDS:
            return self._end(kind, decoded(data, _RESPONSE))
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

    def _start(self, index: int, item: Item) -> Iterator[Delta]:
        if item.type in _DELTA_OF_ITEM:
            self._started[index] = item
        if item.type == "function_call":
            yield ToolCallDelta(item.tool_use_id, item.name or "", "")

    def _take_item(self, index: int, item: Item) -> Iterator[Delta]:
        """Take a finished item. Yield its content now if there were no deltas of it."""
        self._items[index] = item
        if item.type in SERVER_ITEMS:
            yield from self._shown(index, item)
        if index not in self._pieces and item.type in _DELTA_OF_ITEM:
            self._started[index] = item
            yield from self._add(_DELTA_OF_ITEM[item.type], index, item.text)

    def _shown(self, index: int, item: Item) -> Iterator[Delta]:
        """Yield the beginning and the end of a call that the API runs. Two items tell of a search for tools."""
        (name, given), (text, _) = server_call(item.raw or {}), server_result(item.raw or {})
        call_id = item.id or ""
        if item.type == SEARCH_OUTPUT:
            call_id = self._searched(index)
        else:
            yield ServerToolStarted(call_id, name, given)
        if item.type != SEARCH_CALL:
            yield ServerToolFinished(call_id, name, result_text(text), item.status in FAILED)

    def _searched(self, index: int) -> str:
        """Return the id of the search for tools that an output belongs to: the last one before it."""
        calls = [item.id for place, item in sorted(self._items.items()) if place < index and item.type == SEARCH_CALL]
        return (calls[-1] if calls else "") or ""

    def _end(self, kind: str, response: _Response) -> Iterator[Delta]:
        self._usage = response.usage or {}
        if kind == "response.failed":
            raise _error(response.error, self._model)
        known = {item.id for item in self._items.values()}
        for index, item in enumerate(map(decode_item, response.output or ())):
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

    def _cut_short(self, index: int) -> Item:
        """Return an unfinished item with its deltas so far, and without its state, which may be incomplete."""
        item, text = self._started[index], "".join(self._pieces.get(index, ()))
        cut = Item(item.type, call_id=item.tool_use_id, name=item.name, status="incomplete")
        cut.namespace = item.namespace
        cut.arguments, cut.content = text, [ItemPart(text=text)]
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
            if item.type in SERVER_ITEMS:
                found = self._server_blocks(item, state_data(item, follows, reasoned))
                if follows and getattr(found[0], "state", None) is None:
                    blocks[-1] = msgspec.structs.replace(blocks[-1], state=None)
                blocks += found
                follows = ""
                continue
            block = self._block(item, self._state(state_data(item, follows, reasoned)))
            if block is not None:
                blocks.append(block)
            elif follows:
                # Reasoning cannot be sent back without the item that followed it.
                blocks[-1] = msgspec.structs.replace(blocks[-1], state=None)
            follows = item.id or "" if isinstance(block, ThinkingBlock) else ""
        yield Reply(Message("assistant", tuple(blocks)), self._stop_reason(items), self.usage)

    def _settled_items(self) -> list[Item]:
        """Return the items in order, without a search for tools that has no output: the API refuses one alone."""
        placed = sorted(self._items.items())
        answered = {self._searched(place) for place, item in placed if item.type == SEARCH_OUTPUT} - {""}
        for place, item in placed:
            if item.type == SEARCH_OUTPUT:
                item.call_id = self._searched(place)
        pair = (SEARCH_CALL, SEARCH_OUTPUT)
        return [item for _, item in placed if item.type not in pair or (item.call_id or item.id) in answered]

    @property
    def usage(self) -> Usage:
        """The usage that the API has reported so far."""
        searches = [item for item in self._items.values() if item.type == "web_search_call"]
        ran = sum(text_field((item.raw or {}).get("action"), "type") in ("", "search") for item in searches)
        return msgspec.structs.replace(_usage(self._usage), web_searches=ran)

    def _server_blocks(self, item: Item, state: dict[str, Any]) -> list[Block]:
        """Return the call and the result of a tool that the API ran, and the pictures that it made."""
        raw = item.raw or {}
        # The API refuses the item without the reasoning before it.
        order = {"follows": state.get("follows"), "reasoned": bool(state.get("id"))}
        kept = self._state({"item": raw, **{name: value for name, value in order.items() if value}})
        if raw.get("type") == "web_search_call" and not text_field(raw.get("action"), "type"):
            kept = None  # the API would refuse it
        name, given = server_call(raw)
        text, pictures = server_result(raw)
        if item.type == SEARCH_CALL:
            return [ServerToolUseBlock(item.id or "", name, given, kept)]
        if item.type == SEARCH_OUTPUT:
            return [ServerToolResultBlock(item.call_id or "", result_text(text), item.status in FAILED, kept)]
        own = self._state({"item": None}) if kept else None
        return [
            ServerToolUseBlock(item.id or "", name, given, kept),
            ServerToolResultBlock(item.id or "", result_text(text), item.status in FAILED, own),
            *(picture_at(url, self._store) for url in pictures),
        ]

    def _block(self, item: Item, state: ProviderState | None) -> Block | None:
        match item.type:
            case "message":
                return self._text(item, state) if item.text.strip() else None
            case "function_call":
                return finished_call_of(item, state)
            case "reasoning":
                raw = self._state(item.raw if item.raw and is_replayable(item.raw) else {})
                return ThinkingBlock(item.text, raw) if item.text or raw else None
            case "image_generation_call" if item.result:
                data = (state.data if state else {}) | {"id": item.id or ""}
                return picture(item.result, f"image/{item.output_format or 'png'}", self._store, self._state(data))
        return None

    def _text(self, item: Item, state: ProviderState | None) -> TextBlock:
        raw, cited, before = [], [], 0
        for part in item.content or ():
            listed = part.annotations if part.text and isinstance(part.annotations, list) else []
            found = [each for each in listed if isinstance(each, dict)]
            raw += found
            cited += [each for each in (citation(each, before) for each in found) if each]
            before += len(part.text or part.refusal or "")
        if raw and state and len(item.content or ()) == 1:
            state = msgspec.structs.replace(state, data=state.data | {"annotations": raw})
        return TextBlock(item.text, state, tuple(cited))

    def _state(self, data: dict[str, Any]) -> ProviderState | None:
        return ProviderState(self._provider, self._model, data) if data else None

    def _stop_reason(self, items: list[Item]) -> StopReason:
        if self._incomplete:
            return self._incomplete
        if any(part.type == "refusal" for item in items for part in item.content or ()):
            return StopReason.REFUSAL
        return StopReason.TOOL_USE if any(item.type == "function_call" for item in items) else StopReason.END


def _index(event: _Event) -> int:
    return event.output_index if isinstance(event.output_index, int) else 0


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
