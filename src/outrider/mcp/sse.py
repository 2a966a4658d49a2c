"""Server-sent events of an MCP server, parsed from chunks of bytes within a limit."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from outrider.jsonrpc import LineSplitter

_LONGEST_RETRY = 60.0
_LONGEST_ID = 1_000


class Event(msgspec.Struct, frozen=True):
    data: bytes
    name: str = "message"


class EventReader:
    """Parses events, however the bytes are split. Nothing over the limit is kept."""

    def __init__(self, limit: int) -> None:
        self.last_id = ""  # the id of the last event that has one: the stream can be resumed after it
        self.retry: float | None = None  # the seconds that the server asks to wait before the stream is resumed
        self.has_skipped = False  # whether an event was over the limit
        self._limit = limit
        self._lines = LineSplitter(limit)
        self._data: list[bytes] = []
        self._bytes = 0
        self._name = "message"

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Yield the events that the chunk completes. Events without data, and those over the limit, are skipped."""
        for line in self._lines.split(chunk):
            if line is None:
                self._bytes = self._limit + 1
            elif line := line.removesuffix(b"\r"):
                self._take(line)
            else:
                event = Event(b"\n".join(self._data), self._name)
                is_usable = event.data and not self.is_too_long
                self.has_skipped = self.has_skipped or self.is_too_long
                self._data, self._bytes, self._name = [], 0, "message"
                if is_usable:
                    yield event

    @property
    def is_too_long(self) -> bool:
        return self._bytes > self._limit

    def _take(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match field:
            case b"data":
                self._bytes += len(value) + 1
                if self._bytes <= self._limit:
                    self._data.append(value)
            case b"event":
                self._name = value[:100].decode("utf-8", "replace")
            case b"id" if len(value) <= _LONGEST_ID and value.isascii() and value.decode().isprintable():
                self.last_id = value.decode()
            case b"retry" if value.isdigit() and len(value) < 10:
                self.retry = min(int(value) / 1000, _LONGEST_RETRY)
