"""Parse the bytes of a streamed response into events, deltas and calls, however the bytes are split."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import groupby
from time import monotonic
from types import NoneType, UnionType
from typing import Any, Protocol, TypeVar, get_args, get_origin

import msgspec

from outrider.conversation.messages import ProviderState, ToolUseBlock
from outrider.conversation.usage import Usage
from outrider.errors import IncompleteStreamError, ProviderError
from outrider.providers.base import Reply
from outrider.providers.deltas import Delta, TextDelta, ThinkingDelta, ToolCallDelta
from outrider.text import clean

MAX_EVENT_BYTES = 64 * 1024 * 1024  # no event of a reply is larger than this
T = TypeVar("T")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# Escaped surrogates in JSON, in pairs or alone. An escaped backslash also matches, so that the text after it does not.
_SURROGATES = re.compile(rb"\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u[dD][89a-fA-F]..", re.DOTALL)


class EventParser:
    """Parses server-sent events from chunks that are split anywhere. A response of plain JSON is one event."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        """The unfinished event. It may grow to megabytes, so its pieces are joined only once."""
        self._pending_bytes = 0  # the size of the unfinished event
        self._after_cr = False
        self._started = False
        self._plain = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the data of the events that the chunk completes. Events without data are skipped."""
        chunk = self._normalised(chunk)
        pieces = self._pieces
        is_split = chunk.startswith(b"\n") and bool(pieces) and pieces[-1].endswith(b"\n")
        if self._plain or not (is_split or b"\n\n" in chunk):
            self._keep(chunk)
            return []
        whole = b"".join((*pieces, chunk)) if pieces else chunk
        end = whole.rfind(b"\n\n")
        self._pieces, self._pending_bytes = [], 0
        self._keep(whole[end + 2 :])
        found = _events(whole[:end])
        return list(filter(None, map(_repair, found) if _needs_repair(whole) else found))

    def finish(self) -> list[bytes]:
        """Return the event that the end of the stream completes, without a blank line. Drop an incomplete one."""
        rest = b"".join(self._pieces)
        self._pieces, self._pending_bytes = [], 0
        data = _repair(rest if self._plain else _data(rest.strip(b"\n")))
        if data and (self._plain or data.strip() == b"[DONE]" or _is_json(data)):
            return [data]
        return []

    def _keep(self, piece: bytes) -> None:
        if piece:
            self._pieces.append(piece)
            self._pending_bytes += len(piece)
            if self._pending_bytes > MAX_EVENT_BYTES:
                raise ProviderError("the response has an event that is too large")

    def _normalised(self, chunk: bytes) -> bytes:
        """Return the chunk with \\n as its only line end, and without a byte order mark."""
        if self._after_cr:
            # This line feed belongs to the carriage return at the end of the previous chunk.
            chunk, self._after_cr = chunk.removeprefix(b"\n"), not chunk
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if not self._started and (start := chunk.removeprefix(BYTE_ORDER_MARK).lstrip()):
            self._started = True
            self._plain = start[:1] in (b"{", b"[")
            return start if self._plain else chunk
        return chunk


def _events(lines: bytes) -> list[bytes]:
    """Return the data of each event. Blank lines separate events."""
    if lines.startswith(b"data: "):
        events = lines[6:].split(b"\n\ndata: ")
        if lines.count(b"\n") == 2 * len(events) - 2:  # each event is one line of data, as nearly all are
            return events
    return list(map(_data, lines.split(b"\n\n")))


def _data(event: bytes) -> bytes:
    fields = (line.removeprefix(BYTE_ORDER_MARK).partition(b":") for line in event.split(b"\n"))
    return b"\n".join(value.removeprefix(b" ") for name, _, value in fields if name == b"data")


def _needs_repair(data: bytes) -> bool:
    # One byte is found much faster than two, and most chunks have no backslash before their end.
    backslash = data.find(b"\\")
    return not data.isascii() or (backslash >= 0 and data.find(b"\\u", backslash) >= 0)


def _repair(data: bytes) -> bytes:
    """Replace invalid UTF-8 and lone surrogates, which would make the whole reply unreadable."""
    if b"\\u" in data:
        data = _SURROGATES.sub(lambda found: rb"\ufffd" if len(found[0]) == 6 else found[0], data)
    if data.isascii():
        return data
    return data.decode("utf-8", "replace").encode()


def decode_event(data: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[T], label: str) -> T:
    """Decode an event. What does not fit keeps its default. Raise IncompleteStreamError if it is not JSON."""
    try:
        try:
            return decoder.decode(data)
        except msgspec.ValidationError:
            found: T = lenient(decoder.type, msgspec.json.decode(data))
            return found
    except (ValueError, RecursionError) as error:
        raise IncompleteStreamError(f"{label} sent an event that cannot be decoded: {error}", retryable=True) from None


def lenient(kind: Any, value: Any) -> Any:
    """Convert to a struct or a list of structs, without fields that do not fit. Raise ValidationError for others."""
    kinds = [each for each in get_args(kind) if each is not NoneType] if isinstance(kind, UnionType) else [kind]
    if len(kinds) != 1 or (value is None and kinds != [kind]):
        return msgspec.convert(value, kind)
    if get_origin(kinds[0]) is list and isinstance(value, list):
        return [lenient(get_args(kinds[0])[0], each) for each in value]
    if not (isinstance(kinds[0], type) and issubclass(kinds[0], msgspec.Struct)):
        return msgspec.convert(value, kind)
    given, fields = value if isinstance(value, dict) else {}, {}
    for field in msgspec.structs.fields(kinds[0]):
        if field.encode_name in given:
            with suppress(msgspec.ValidationError):
                fields[field.name] = lenient(field.type, given[field.encode_name])
    return kinds[0](**fields)


def count_of(counts: Any, name: str) -> int:
    """Return a number of an untrusted object, or 0."""
    found = counts.get(name) if isinstance(counts, dict) else None
    return max(found, 0) if isinstance(found, int) else 0


def _is_json(data: bytes) -> bool:
    with suppress(ValueError, RecursionError):
        msgspec.json.decode(data)
        return True
    return False


class Incoming(Protocol):
    """A reply that is built from events."""

    @property
    def complete(self) -> bool:
        """Whether the reply is complete. A later failure does not undo it."""

    @property
    def done(self) -> bool:
        """Whether the rest of the stream can be ignored."""

    def take_all(self, events: Sequence[bytes], shown: list[Delta | Reply]) -> None:
        """Read events until `done`, and append their deltas to `shown`. Raise ProviderError."""

    @property
    def usage(self) -> Usage:
        """The usage that the API has reported so far."""

    def end(self) -> Iterable[Delta | Reply]:
        """Yield the last deltas, and then the reply."""


class OneByOne(ABC):
    """A part of replies that read their events one by one. `origin` marks their opaque state."""

    def __init__(self, origin: ProviderState) -> None:
        self.complete = False
        self._origin = origin

    @property
    def done(self) -> bool:
        """Whether the rest of the stream can be ignored."""
        return self.complete

    @abstractmethod
    def take(self, data: bytes) -> Iterable[Delta]:
        """Read one event. It takes effect when the returned deltas are consumed. An unknown event is ignored."""

    def take_all(self, events: Sequence[bytes], shown: list[Delta | Reply]) -> None:
        """Read events until `done`."""
        for data in events:
            shown += self.take(data)
            if self.done:
                return

    def _state(self, data: dict[str, Any]) -> ProviderState:
        return msgspec.structs.replace(self._origin, data=data)


class ReplyParser:
    """Parses the bytes of a response. Raises IncompleteStreamError after `idle_seconds` of keep-alives alone."""

    def __init__(self, incoming: Incoming, label: str, idle_seconds: float = math.inf) -> None:
        self._incoming = incoming
        self._label = label
        self._events = EventParser()
        self.ended = False  # whether the reply was returned
        self._idle_seconds = idle_seconds
        self._quiet_since: float | None = None
        """When the first keep-alive after the last progress came. The transport watches for bytes."""
        self._last_event = b""

    @property
    def usage(self) -> Usage | None:
        usage = self._incoming.usage
        return usage if usage.total_tokens else None

    @property
    def complete(self) -> bool:
        return self._incoming.complete

    def feed(self, chunk: bytes) -> list[Delta | Reply]:
        """Return the deltas in a chunk, and the reply as soon as it is done."""
        if self.ended:
            return []
        events = self._events.feed(chunk)
        shown = self._take(events)
        if shown or self._is_new(events):
            self._quiet_since = None
        else:
            self._check_idle()
        return shown

    def _check_idle(self) -> None:
        now = monotonic()
        if self._quiet_since is None:
            self._quiet_since = now
        elif now - self._quiet_since > self._idle_seconds:
            silent = f"{self._label} has sent nothing new for {self._idle_seconds:g} s"
            raise IncompleteStreamError(f"{silent}; the stream was given up", retryable=True)

    def _is_new(self, events: Sequence[bytes]) -> bool:
        """Return whether events without deltas are more than keep-alives: pings, or one event again and again."""
        last, self._last_event = self._last_event, events[-1] if events else self._last_event
        return any(event != last and not _is_ping(event) for event in events)

    def finish(self) -> list[Delta | Reply]:
        """Return the reply if it was not returned yet. Raise IncompleteStreamError if it is incomplete."""
        shown = [] if self.ended else self._take(self._events.finish())
        if not self.ended:
            self._end(shown)
        return shown

    def _take(self, events: Sequence[bytes]) -> list[Delta | Reply]:
        shown: list[Delta | Reply] = []
        incoming = self._incoming
        try:
            incoming.take_all(events, shown)
        except ProviderError:
            if not self.complete:
                raise
            self._end(shown)
        else:
            if incoming.done:
                self._end(shown)
        return shown

    def _end(self, shown: list[Delta | Reply]) -> None:
        if not self.complete:
            raise IncompleteStreamError(f"the reply of {self._label} ended before it was complete", retryable=True)
        self.ended = True
        shown.extend(self._incoming.end())


def merge_deltas(items: list[Delta | Reply]) -> list[Delta | Reply]:
    """Merge adjacent deltas of one kind, so that observers get one delta for a chunk."""
    if len(items) < 2:
        return items
    found: list[Delta | Reply] = []
    for (kind, _), grouped in groupby(items, _merge_key):
        group: list[Any] = list(grouped)
        if len(group) == 1:
            found += group
        elif kind is ToolCallDelta:
            pieces = "".join([item.arguments for item in group])
            found.append(ToolCallDelta(group[-1].call_id, group[-1].name, pieces))
        elif kind is TextDelta or kind is ThinkingDelta:
            found.append(kind("".join([item.text for item in group])))
        else:
            found += group
    return found


def _merge_key(item: Delta | Reply) -> tuple[type, str | int]:
    """Return the key for merging adjacent deltas. Calls without an id are not merged: they may be different ones."""
    if isinstance(item, ToolCallDelta):
        return ToolCallDelta, item.call_id or id(item)
    return type(item), ""


def _is_ping(event: bytes) -> bool:
    return len(event) < 200 and (b'"ping"' in event or b'"keepalive"' in event)


class CallAssembler:
    def __init__(self, call_id: str = "", name: str = "") -> None:
        self.id = call_id
        self.name = name
        self._pieces: list[str] = []

    def add(self, piece: str) -> None:
        self._pieces.append(piece)

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def finish(self, state: Any = None) -> ToolUseBlock:
        """Return the call. Arguments that are not a JSON object are kept as text."""
        return finished_call(self.id, self.name, self.text, state)


def finished_call(call_id: str, name: str, text: str, state: Any = None) -> ToolUseBlock:
    """Return a call from the complete text of its arguments. Empty text means no arguments."""
    if not text.strip():
        return ToolUseBlock(call_id, name, {}, state=state)
    try:
        value = msgspec.json.decode(_repair(text.encode("utf-8", "replace")))
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        return ToolUseBlock(call_id, name, value, state=state)
    return ToolUseBlock(call_id, name, {}, invalid_input=clean(text), state=state)
