"""From the bytes of a live answer to events and calls, whatever way they are cut up."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Protocol

import msgspec

from outrider.conversation.messages import ToolUseBlock
from outrider.errors import IncompleteStreamError, ProviderError
from outrider.providers.base import Reply
from outrider.providers.deltas import Delta, ToolCallDelta
from outrider.text import clean

MAX_EVENT_BYTES = 64 * 1024 * 1024
"""A single event over this size is not a reply but a fault."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# Escaped surrogates in JSON: in pairs, or alone. An escaped backslash is passed over, so that what follows it is text.
_SURROGATES = re.compile(rb"\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u[dD][89a-fA-F]..", re.DOTALL)


class EventParser:
    """The data of server-sent events from bytes in any chunks: any line ends, characters and JSON cut anywhere.

    An answer that is plain JSON, from a server that does not stream, is one event.
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        """The event that is still coming: one that grows to megabytes is not copied with each piece."""
        self._coming = 0
        """Bytes of it so far."""
        self._after_cr = False
        self._begun = False
        self._plain = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The events that the chunk completes. One without data says nothing and is left out."""
        chunk = self._normalised(chunk)
        pieces = self._pieces
        straddles = chunk.startswith(b"\n") and bool(pieces) and pieces[-1].endswith(b"\n")
        if self._plain or not (straddles or b"\n\n" in chunk):
            self._keep(chunk)
            return []
        whole = b"".join((*pieces, chunk)) if pieces else chunk
        end = whole.rfind(b"\n\n")
        self._pieces, self._coming = [], 0
        self._keep(whole[end + 2 :])
        found = _events(whole[:end])
        is_sound = whole.isascii() and b"\\u" not in whole
        return list(filter(None, found if is_sound else map(_sound, found)))

    def finish(self) -> list[bytes]:
        """The event that the end of the stream completes; servers forget the last blank line. Half an event is none."""
        rest = b"".join(self._pieces)
        self._pieces, self._coming = [], 0
        data = _sound(rest if self._plain else _data(rest.strip(b"\n")))
        if data and (self._plain or data.strip() == b"[DONE]" or _is_json(data)):
            return [data]
        return []

    def _keep(self, piece: bytes) -> None:
        if piece:
            self._pieces.append(piece)
            self._coming += len(piece)
            if self._coming > MAX_EVENT_BYTES:
                raise ProviderError("the answer has an event that is too large to be one")

    def _normalised(self, chunk: bytes) -> bytes:
        """The chunk with line feeds as its only line ends, and without the mark that some servers begin with."""
        if self._after_cr:
            # A line feed that belongs to the carriage return at the end of the chunk before.
            chunk, self._after_cr = chunk.removeprefix(b"\n"), not chunk
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if not self._begun and (start := chunk.removeprefix(BYTE_ORDER_MARK).lstrip()):
            self._begun = True
            self._plain = start[:1] in (b"{", b"[")
            return start if self._plain else chunk
        return chunk


def _events(lines: bytes) -> list[bytes]:
    """The data of each of the events, which blank lines part."""
    if lines.startswith(b"data: "):
        events = lines[6:].split(b"\n\ndata: ")
        if lines.count(b"\n") == 2 * len(events) - 2:  # each is one line of plain data, as nearly all are
            return events
    return list(map(_data, lines.split(b"\n\n")))


def _data(event: bytes) -> bytes:
    """The data of one event: of its lines only those count."""
    fields = (line.removeprefix(BYTE_ORDER_MARK).partition(b":") for line in event.split(b"\n"))
    return b"\n".join(value.removeprefix(b" ") for name, _, value in fields if name == b"data")


def _sound(data: bytes) -> bytes:
    """The data with what cannot be text replaced, as half a character: it would spoil the whole reply."""
    if b"\\u" in data:
        data = _SURROGATES.sub(lambda found: rb"\ufffd" if len(found[0]) == 6 else found[0], data)
    if data.isascii():
        return data
    return data.decode("utf-8", "replace").encode()


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return False
    return True


class Incoming(Protocol):
    """A reply as it comes in, event by event."""

    @property
    def complete(self) -> bool:
        """Whether the reply is whole: what goes wrong after that does not undo it."""
        ...

    @property
    def done(self) -> bool:
        """Whether nothing that matters can follow."""
        ...

    def take_all(self, events: Sequence[bytes], shown: list[Delta | Reply]) -> None:
        """Read events until nothing can follow, and add what they show. Raises ProviderError."""
        ...

    def end(self) -> Iterable[Delta | Reply]:
        """What the end completes, and then the reply."""
        ...


class _OneByOne(Protocol):
    @property
    def done(self) -> bool: ...

    def take(self, data: bytes) -> Iterable[Delta]: ...


def take_each(incoming: _OneByOne, events: Sequence[bytes], shown: list[Delta | Reply]) -> None:
    """The `take_all` of a reply that reads its events one by one."""
    for data in events:
        shown += incoming.take(data)
        if incoming.done:
            return


class ReplyParser:
    """Deltas and the reply from the bytes of an answer, as they come."""

    def __init__(self, incoming: Incoming, label: str) -> None:
        self._incoming = incoming
        self._label = label
        self._events = EventParser()
        self.ended = False
        """Whether the reply was given."""

    @property
    def complete(self) -> bool:
        """Whether the reply is whole, given or not."""
        return self._incoming.complete

    def feed(self, chunk: bytes) -> list[Delta | Reply]:
        """What the chunk shows; the reply as soon as nothing can follow it."""
        return [] if self.ended else self._take(self._events.feed(chunk))

    def finish(self) -> list[Delta | Reply]:
        """The reply, where only the end of the answer completes it. Raises IncompleteStreamError if there is none."""
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


def joined(items: list[Delta | Reply]) -> list[Delta | Reply]:
    """The items with what arrived together in one delta: observers need not be told of it word by word."""
    if len(items) < 2:
        return items
    found: list[Delta | Reply] = []
    for (kind, _), grouped in groupby(items, merge_key):
        group: list[Any] = list(grouped)
        if len(group) == 1 or kind is Reply:
            found += group
        elif kind is ToolCallDelta:
            pieces = "".join([item.arguments for item in group])
            found.append(ToolCallDelta(group[-1].call_id, group[-1].name, pieces))
        else:
            found.append(kind("".join([item.text for item in group])))
    return found


def merge_key(item: Delta | Reply) -> tuple[type, str | int]:
    """What items have in common that can be told as one; calls without an id may be different ones."""
    if isinstance(item, ToolCallDelta):
        return ToolCallDelta, item.call_id or id(item)
    return type(item), ""


class CallAssembler:
    """A tool call that arrives in pieces."""

    def __init__(self, call_id: str = "", name: str = "") -> None:
        self.id = call_id
        self.name = name
        self._pieces: list[str] = []

    def add(self, piece: str) -> None:
        """More of the arguments, as JSON text."""
        self._pieces.append(piece)

    @property
    def text(self) -> str:
        """The arguments so far."""
        return "".join(self._pieces)

    def finish(self, state: Any = None) -> ToolUseBlock:
        """The call. No arguments at all mean none; what is not a JSON object is kept as it was written."""
        return finished_call(self.id, self.name, self.text, state)


def finished_call(call_id: str, name: str, text: str, state: Any = None) -> ToolUseBlock:
    """A call from its complete arguments as text."""
    if not text.strip():
        return ToolUseBlock(call_id, name, {}, state=state)
    try:
        value = msgspec.json.decode(_sound(text.encode("utf-8", "replace")))
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        return ToolUseBlock(call_id, name, value, state=state)
    return ToolUseBlock(call_id, name, {}, invalid_input=clean(text), state=state)


def partial_arguments(text: str, *, unfinished: bool = True) -> dict[str, Any]:
    """What can be read so far of arguments that are still coming; unfinished strings included, or left out.

    >>> partial_arguments('{"path": "src/ma')
    {'path': 'src/ma'}
    """
    import jiter  # only front ends that show arguments live need it

    try:
        mode: Any = "trailing-strings" if unfinished else "on"
        value = jiter.from_json(text.encode("utf-8", "replace"), partial_mode=mode)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
