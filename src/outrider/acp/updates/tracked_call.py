"""One tool call: its wanted state, its sent state, and the difference."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from msgspec import UNSET

from outrider.acp.updates.call_state import (
    FIELDS,
    KINDS,
    CallState,
    Item,
    JsonValue,
    Terminal,
    Text,
    size_of_field,
    unwrap,
)
from outrider.acp.updates.metrics import Metrics, SizeLedger
from outrider.text import clean, counted
from outrider.text.terminal import TerminalText

MAX_OUTPUT = 65_536
"""Characters of appended output in one update."""
REPEAT_LIMIT = 1_024
"""Bytes up to which the end of a call repeats unchanged content and locations."""
_REPEATED_FIELDS = ("content", "locations")
_JSON_FIELDS = ("raw_input", "raw_output")
_FIELD_NAMES = frozenset(FIELDS)
_DEFAULTS = {name: getattr(CallState(""), name) for name in FIELDS if name not in _JSON_FIELDS}
_SIZES = {name: size_of_field(name, _DEFAULTS[name]) for name in ("title", "kind", "status")}
"""Every status is counted with the same size, so that a change of status does not change sizes."""


class TrackedCall:
    """The wanted and the sent state of one call. The sender reports with `mark_sent` what it has sent."""

    __slots__ = (
        *("_dirty", "_format_output", "_holds_pending", "_offered", "_pending"),
        *("exit_code", "has_output", "id", "is_ended", "ledger", "output_due", "pending_length"),
        *("sent", "tail", "wanted"),
    )

    def __init__(self, id: str, format_output: Callable[[str], str] = str) -> None:
        self.id = id
        self._format_output = format_output
        self.wanted: dict[str, Any] = dict(_DEFAULTS)
        self.sent: dict[str, Any] | None = None
        """None until the call is announced."""
        self.tail: OutputTail | None = None
        """The output, if content is replaced."""
        self.has_output = False
        """Whether there was output, or the observer knows a terminal for it."""
        self.exit_code: Any = UNSET
        self.is_ended = False
        self.ledger = SizeLedger(_SIZES)
        self.output_due = float("-inf")
        """When the pacer sends output again."""
        self.pending_length = 0
        """Characters of appended output that are not sent yet."""
        self._pending: deque[str] = deque()
        self._offered = 0
        self._holds_pending = False
        self._dirty: set[str] = set()

    @property
    def state(self) -> CallState:
        """The wanted state, without live output."""
        return CallState(self.id, **unwrap(self.wanted))

    @property
    def is_urgent(self) -> bool:
        """Whether it must be sent even to an observer that reads slowly."""
        return self.is_ended or self.sent is None

    def apply(self, fields: Mapping[str, Any], metrics: Metrics) -> bool:
        """Set wanted fields. Return whether any changed. If one is invalid, none is set."""
        if len(fields) == 1 and "status" in fields:  # the common case
            return self._set_status(fields["status"])
        changed = self._changed_fields(fields)
        for name, value, size in changed:
            if name != "status":
                self.ledger.resize(name, size, metrics)
            self.wanted[name] = value
            self._dirty.add(name)
        self.ledger.changes += 1
        return bool(changed)

    def add_output(self, text: str, metrics: Metrics, *, appends: bool) -> None:
        """Add output: queue it, so that each character is sent once, or make its end part of the content."""
        self.has_output = True
        if appends:
            self.pending_length += len(text)
            self._pending += (text[start : start + MAX_OUTPUT] for start in range(0, len(text), MAX_OUTPUT))
            field, added = "output", len(text.encode())
        else:
            if self.tail is None:
                self.tail = OutputTail()
            field, added = "content", self.tail.append(text)
        self.ledger.resize(field, self.ledger.sizes.get(field, 0) + added, metrics)
        self.ledger.changes += 1

    def next_output(self) -> str:
        """Return the next output to append, or an empty string."""
        if not self._pending or (self._holds_pending and not self.is_ended):
            return ""
        length = self._offered = 0
        for piece in self._pending:
            length += len(piece)
            if length > MAX_OUTPUT:
                break
            self._offered += 1
        return "".join(islice(self._pending, self._offered))

    def release_output(self, *, is_due: bool, is_enough: bool) -> None:
        """Let output be sent. Appended output is also sent when there is enough of it.

        Replaced content is sent only when it is due: otherwise every flush would send it again.
        """
        if self.tail is None:
            self._holds_pending = bool(self._pending) and not (is_due or is_enough)
        elif is_due and self.tail.has_new_output:
            self.tail.refresh()

    @property
    def holds_output(self) -> bool:
        """Whether there is output that is not due yet."""
        if self.is_ended:
            return False
        return self._holds_pending if self.tail is None else self.tail.has_new_output

    def announcement(self) -> dict[str, Any]:
        """Return the title and every field that has a value. Output is sent after it, and before the end."""
        values = {"title": "", **_with_value(self.wanted)}
        if self.is_ended and self._pending:
            values["status"] = "in_progress"
        elif self.is_ended and self.exit_code is not UNSET:
            values["exit_code"] = self.exit_code
        return values

    def difference(self, *, full: bool = False, repeat_limit: int = REPEAT_LIMIT) -> dict[str, Any]:
        """Return the fields that differ from those sent. The end repeats small content: up to `repeat_limit` bytes."""
        sent = self.sent
        assert sent is not None, "announce the call first"
        visible = self._visible_fields()
        names = visible if self.tail or self.is_ended else self._dirty
        changed = {name: visible[name] for name in names if visible[name] is not sent.get(name) != visible[name]}
        if not changed:
            self._dirty.clear()
            return changed
        if self.is_ended:
            small = [
                name for name in _REPEATED_FIELDS if visible[name] and self.ledger.sizes.get(name, 0) <= repeat_limit
            ]
            changed |= {name: visible[name] for name in small}
            if self.exit_code is not UNSET:
                changed["exit_code"] = self.exit_code
        return _with_value(visible) | changed if full else changed

    def sent_fields(self) -> dict[str, Any]:
        """Return every sent field that has a value, for observers that forget them."""
        return _with_value(self.sent or {})

    def mark_sent(self, fields: Mapping[str, Any]) -> dict[str, int]:
        """Record that these fields were sent. Return their sizes."""
        if self.sent is None:
            self.sent = dict(_DEFAULTS)
        sizes: dict[str, int] = {}
        for name, value in fields.items():
            if name in _FIELD_NAMES:
                self.sent[name] = value
                if value is self.wanted[name]:
                    self._dirty.discard(name)
            sizes[name] = self._size(name, value)
        self.has_output = self.has_output or Terminal(self.id) in fields.get("content", ())
        if "output" in fields:
            for _ in range(self._offered):
                self.pending_length -= len(self._pending.popleft())
        return sizes

    def final_content(self) -> tuple[Item, ...]:
        """Return the content of a call that ends without new content: its content and its output."""
        content: tuple[Item, ...] = self.wanted["content"]
        return (*content, self._as_text(self.tail.text())) if self.tail else content

    def _set_status(self, status: Any) -> bool:
        self.ledger.changes += 1
        has_changed = status is not None and status is not UNSET and status != self.wanted["status"]
        if has_changed:
            self.wanted["status"] = status
            self._dirty.add("status")
        return has_changed

    def _changed_fields(self, fields: Mapping[str, Any]) -> list[tuple[str, Any, int]]:
        changed: list[tuple[str, Any, int]] = []
        for name, value in fields.items():
            kept = self.wanted.get(name)
            if value is kept or value is None or value is UNSET:
                continue
            value = _convert(name, value, kept)
            if value is kept or value == kept:
                continue
            size = size_of_field(name, value)
            if name == "content":
                size += self.tail.total_bytes if self.tail else 0
            changed.append((name, value, size))
        return changed

    def _visible_fields(self) -> dict[str, Any]:
        if self.tail is None or not self.tail.shown or self.is_ended:
            return self.wanted
        return self.wanted | {"content": (*self.wanted["content"], self._as_text(self.tail.shown))}

    def _as_text(self, printed: str) -> Text:
        return Text(self._format_output(printed))

    def _size(self, name: str, value: Any) -> int:
        if name == "exit_code":
            return 20
        if name == "output" or (name == "content" and self.tail and self.is_ended):
            return size_of_field(name, value)
        size = self.ledger.sizes.get(name, 16)
        if name == "content" and self.tail:  # the ledger counts the whole output, of which only the end is shown
            size += len(self.tail.shown) - self.tail.total_bytes
        return size


def check_fields(fields: Mapping[str, Any]) -> None:
    """Raise TypeError for a field that a call does not have."""
    for name in fields:
        if name not in _FIELD_NAMES:
            raise TypeError(f"a call has no field {name!r}; it has: {', '.join(FIELDS)}")


def _convert(name: str, value: Any, kept: Any) -> Any:
    if name in _REPEATED_FIELDS:
        return tuple(value)
    if name in _JSON_FIELDS:
        return kept if kept is not None and kept.is_unchanged(value) else JsonValue.of(name, value)
    if not isinstance(value, str):
        raise TypeError(f"{name} of a call must be a string, not {type(value).__name__}")
    if name == "kind" and value not in KINDS:
        raise ValueError(f"unknown kind {value!r}; use one of: {', '.join(KINDS)}")
    return clean(value)


def _with_value(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value != () and value != ""}


SHOWN_BYTES = 960
"""Bytes of output that are shown while the command runs."""
KEPT_CHARACTERS = 262_144
"""Characters that are kept at least, for a call that ends without new content."""


class OutputTail:
    """The end of one command's output as a terminal shows it, its total size, and the part that is shown."""

    def __init__(self) -> None:
        self.total_bytes = 0
        """Size of the whole output in UTF-8."""
        self.shown = ""
        """The text that is shown, as of the last `refresh`."""
        self.has_new_output = False
        """Whether there is output after that text."""
        self._terminal = TerminalText()
        self._lines = 0
        self._bytes = 0
        self._pieces: list[str] = []
        self._characters = 0

    def append(self, text: str) -> int:
        """Append output. Return its size in bytes."""
        size = _size(text)
        self.total_bytes += size
        self.has_new_output = True
        text = self._terminal.add(text)
        self._pieces.append(text)
        self._characters += len(text)
        self._bytes += _size(text)
        self._lines += text.count("\n")
        if self._characters > 2 * KEPT_CHARACTERS:
            self._pieces = ["".join(self._pieces)[-KEPT_CHARACTERS:]]
            self._characters = len(self._pieces[0])
        return size

    def refresh(self) -> None:
        self.shown, self.has_new_output = self.text(SHOWN_BYTES), False

    def text(self, limit: int = KEPT_CHARACTERS) -> str:
        """Return the whole output if it fits; else its last lines, after a line that counts those above."""
        line = self._terminal.line
        return "".join([*self._pieces, line]) if self._bytes + _size(line) <= limit else self._shorten(limit)

    def _shorten(self, limit: int) -> str:
        room = max(1, limit - len(f"… {counted(self._lines, 'line')} above\n".encode()))
        end = self._end(room).encode()[-room:].decode(errors="ignore")
        end = end.partition("\n")[2] or end  # start at the beginning of a line, unless there is only one
        above = self._lines - end.count("\n")
        return f"… {counted(above, 'line')} above\n{end}" if above else f"…{end}"

    def _end(self, characters: int) -> str:
        found: list[str] = []
        length = 0
        for piece in (self._terminal.line, *reversed(self._pieces)):
            found.append(piece)
            length += len(piece)
            if length >= characters:
                break
        return "".join(reversed(found))[-characters:]


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
