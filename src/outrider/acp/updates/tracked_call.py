"""One tool call: what an observer should see of it, what it was sent, and the difference."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from msgspec import UNSET

from outrider.acp.updates.call_state import FIELDS, CallState, Item, Text
from outrider.acp.updates.json_value import JsonValue, unwrap
from outrider.acp.updates.metrics import Ledger, Metrics
from outrider.acp.updates.output_tail import OutputTail
from outrider.acp.updates.size_estimates import size_of_field
from outrider.text import clean

MAX_OUTPUT = 65_536
"""Characters of output in one update."""
OUTPUT_INTERVAL, OUTPUT_THRESHOLD = 0.2, 1_024
"""Seconds between two updates with output, and characters of appended output that need not wait so long."""
BYTES_PER_SECOND = 4_096
"""How fast content with output may be replaced: an update of so many bytes is paid for with a second."""
REPEAT_LIMIT = 1_024
"""Bytes up to which the end of a call repeats content and locations that have not changed."""
_ENVELOPE = 256
_CONTEXT = ("content", "locations")
_RAW = ("raw_input", "raw_output")
_KNOWN = frozenset(FIELDS)
_NOTHING: dict[str, Any] = {
    "title": "",
    "name": "",
    "kind": "other",
    "status": "pending",
    "content": (),
    "locations": (),
}
_SIZES = {name: size_of_field(name, _NOTHING[name]) for name in ("title", "kind", "status")}
"""A status is counted with one size, so that a change of status is no change of sizes."""


class TrackedCall:
    """The wanted state and the sent state of one call. Whoever sends says with `delivered` what has arrived."""

    __slots__ = (
        *("_dirty", "_is_held_back", "_offered", "_format_output", "_output_due", "_pending", "_pending_length"),
        *("exit_code", "id", "is_ended", "ledger", "prints", "sent", "tail", "wanted"),
    )

    def __init__(self, id: str, format_output: Callable[[str], str] = str) -> None:
        self.id = id
        self._format_output = format_output
        self.wanted: dict[str, Any] = dict(_NOTHING)
        self.sent: dict[str, Any] | None = None
        """None until it was announced."""
        self.tail: OutputTail | None = None
        """What it prints, where content is replaced."""
        self.prints = False
        """Whether it has printed something."""
        self.exit_code: Any = UNSET
        self.is_ended = False
        self.ledger = Ledger(_SIZES)
        self._pending: deque[str] = deque()
        self._offered = 0
        self._pending_length = 0
        self._output_due = float("-inf")
        self._is_held_back = False
        self._dirty: set[str] = set()

    @property
    def state(self) -> CallState:
        """What an observer should see, without live output."""
        return CallState(self.id, **unwrap(self.wanted))

    @property
    def is_urgent(self) -> bool:
        """Whether it must be written even to an observer that reads slowly."""
        return self.is_ended or self.sent is None

    def take(self, fields: Mapping[str, Any], metrics: Metrics) -> bool:
        """Make these fields the wanted ones; whether any is another than before. All are taken, or none."""
        if len(fields) == 1 and "status" in fields:  # the common case
            return self._step(fields["status"])
        news = self._news(fields)
        for name, value, size in news:
            if name != "status":
                self.ledger.resize(name, size, metrics)
            self.wanted[name] = value
            self._dirty.add(name)
        self.ledger.changes += 1
        return bool(news)

    def print(self, text: str, metrics: Metrics) -> None:
        """Take output of the command where content is replaced: its end becomes a part of the content."""
        self.prints = True
        if self.tail is None:
            self.tail = OutputTail()
        before = self.tail.total_bytes
        self.tail.append(text)
        size = self.ledger.sizes.get("content", 0) + self.tail.total_bytes - before
        self.ledger.resize("content", size, metrics)

    def queue(self, text: str, metrics: Metrics) -> None:
        """Take output of the command where output is appended: each character is sent once."""
        self.prints = True
        self._pending_length += len(text)
        self._pending += (text[start : start + MAX_OUTPUT] for start in range(0, len(text), MAX_OUTPUT))
        self.ledger.resize("output", self.ledger.sizes.get("output", 0) + len(text.encode()), metrics)

    def output(self) -> str:
        """The next output to append, or nothing."""
        if not self._pending or (self._is_held_back and not self.is_ended):
            return ""
        length = self._offered = 0
        for piece in self._pending:
            length += len(piece)
            if length > MAX_OUTPUT:
                break
            self._offered += 1
        return "".join(islice(self._pending, self._offered))

    def ready(self, now: float, *, hurried: bool) -> None:
        """Choose what of its output is written now: what is due.

        Appended output is due in an update that is worth it, or when others are hurried. Content that is replaced is
        due when the last replacement is paid for, and is never hurried: it would be sent again and again.
        """
        if self.is_ended:
            return
        if self.tail is not None:
            if self.tail.has_new_output and now >= self._output_due:
                self.tail.refresh()
                size = size_of_field("content", self._shown()["content"]) + _ENVELOPE
                self._output_due = now + max(OUTPUT_INTERVAL, size / BYTES_PER_SECOND)
        elif self._pending:
            due = hurried or self._pending_length >= OUTPUT_THRESHOLD or now >= self._output_due
            self._is_held_back = not due
            self._output_due = now + OUTPUT_INTERVAL if due else self._output_due

    @property
    def is_held(self) -> bool:
        """Whether it has printed something that is not due yet."""
        if self.is_ended:
            return False
        return self._is_held_back if self.tail is None else self.tail.has_new_output

    def announcement(self) -> dict[str, Any]:
        """Every field that has a value, and the title. What was printed comes after it, and before the end."""
        values = {"title": "", **_valued(self.wanted)}
        if self.is_ended and self._pending:
            values["status"] = "in_progress"
        elif self.is_ended and self.exit_code is not UNSET:
            values["exit_code"] = self.exit_code
        return values

    def difference(self, *, full: bool = False, repeat_limit: int = REPEAT_LIMIT) -> dict[str, Any]:
        """The fields that differ from what was sent; nothing if none differ.

        The end repeats content and locations of up to so many bytes, for observers that forget.
        """
        sent = self.sent
        assert sent is not None, "an announcement comes first"
        shown = self._shown()
        names = shown if self.tail or self.is_ended else self._dirty
        changed = {name: shown[name] for name in names if shown[name] is not sent.get(name) != shown[name]}
        if not changed:
            self._dirty.clear()
            return changed
        if self.is_ended:
            changed |= {name: shown[name] for name in _CONTEXT if shown[name] and self._is_small(name, repeat_limit)}
            if self.exit_code is not UNSET:
                changed["exit_code"] = self.exit_code
        return _valued(shown) | changed if full else changed

    def known(self) -> dict[str, Any]:
        """Every field that has a value and was sent, for observers that forget."""
        return _valued(self.sent or {})

    def delivered(self, fields: Mapping[str, Any]) -> dict[str, int]:
        """These fields have arrived; their sizes."""
        if self.sent is None:
            self.sent = dict(_NOTHING)
        sizes: dict[str, int] = {}
        for name, value in fields.items():
            if name in _KNOWN:
                self.sent[name] = value
                if value is self.wanted[name]:
                    self._dirty.discard(name)
            sizes[name] = self._size(name, value)
        if "output" in fields:
            for _ in range(self._offered):
                self._pending_length -= len(self._pending.popleft())
        return sizes

    def final_content(self) -> tuple[Item, ...]:
        """The content of a call that ends without one of its own: what it had, and what was printed."""
        content: tuple[Item, ...] = self.wanted["content"]
        return (*content, self._as_text(self.tail.text())) if self.tail else content

    def _step(self, status: Any) -> bool:
        self.ledger.changes += 1
        taken = status is not None and status is not UNSET and status != self.wanted["status"]
        if taken:
            self.wanted["status"] = status
            self._dirty.add("status")
        return taken

    def _news(self, fields: Mapping[str, Any]) -> list[tuple[str, Any, int]]:
        news: list[tuple[str, Any, int]] = []
        for name, value in fields.items():
            kept = self.wanted.get(name)
            if value is kept or value is None or value is UNSET:
                continue
            value = _read(name, value, kept)
            if value is kept or value == kept:
                continue
            size = size_of_field(name, value)
            if name == "content" and self.tail:
                size += self.tail.total_bytes
            news.append((name, value, size))
        return news

    def _shown(self) -> dict[str, Any]:
        if self.tail is None or not self.tail.shown or self.is_ended:
            return self.wanted
        return self.wanted | {"content": (*self.wanted["content"], self._as_text(self.tail.shown))}

    def _as_text(self, printed: str) -> Text:
        return Text(self._format_output(printed))

    def _is_small(self, name: str, limit: int) -> bool:
        return self.ledger.sizes.get(name, 0) <= limit

    def _size(self, name: str, value: Any) -> int:
        if name == "exit_code":
            return 20
        if name == "output" or (name == "content" and self.tail):
            return size_of_field(name, value)
        return self.ledger.sizes.get(name, 16)


def check_fields(fields: Mapping[str, Any]) -> None:
    """A TypeError for a field that a call does not have."""
    for name in fields:
        if name not in _KNOWN:
            raise TypeError(f"a call has no field {name!r}; it has: {', '.join(FIELDS)}")


def _read(name: str, value: Any, kept: Any) -> Any:
    if name in _CONTEXT:
        return tuple(value)
    if name in _RAW:
        return kept if kept is not None and kept.holds(value) else JsonValue.of(name, value)
    if not isinstance(value, str):
        raise TypeError(f"{name} of a call is a string, not a {type(value).__name__}")
    return clean(value)


def _valued(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value != () and value != ""}
