"""One tool call: what an observer should see of it, what it was sent, and the difference."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import islice
from typing import Any

from msgspec import UNSET

from outrider.text import clean
from outrider.updates.metrics import Ledger, Metrics
from outrider.updates.raw import Raw, plain
from outrider.updates.sizes import size_of_field
from outrider.updates.state import FIELDS, CallState, Item, Text
from outrider.updates.tail import Tail

MOST_OUTPUT = 65_536
"""Characters of output in one update."""
ENOUGH_OUTPUT, OUTPUT_EVERY = 1_024, 0.2
"""Characters that are worth an update, and seconds after which fewer are: what stands around them costs too."""
_ENVELOPE = 200
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


class Call:
    """The wanted state and the sent state of one call. Whoever sends says with `delivered` what has arrived."""

    __slots__ = (
        *("_dirty", "_is_held_back", "_offered", "_output_at", "_pending", "_pending_length", "_spent"),
        *("exit_code", "id", "is_ended", "ledger", "prints", "sent", "tail", "wanted"),
    )

    def __init__(self, id: str) -> None:
        self.id = id
        self.wanted: dict[str, Any] = dict(_NOTHING)
        self.sent: dict[str, Any] | None = None
        """None until it was announced."""
        self.tail: Tail | None = None
        """What it prints, where content is replaced."""
        self.prints = False
        """Whether it has printed something."""
        self.exit_code: Any = UNSET
        self.is_ended = False
        self.ledger = Ledger(_SIZES)
        self._pending: deque[str] = deque()
        self._offered = 0
        self._pending_length = 0
        self._output_at = float("-inf")
        self._is_held_back = False
        self._dirty: set[str] = set()
        self._spent = 0

    @property
    def state(self) -> CallState:
        """What an observer should see, without live output."""
        return CallState(self.id, **plain(self.wanted))

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

    def print(self, text: str, now: float, metrics: Metrics) -> None:
        """The command has printed more, and content is replaced: its end becomes a part of the content."""
        self.prints = True
        if self.tail is None:
            self.tail = Tail()
        before = self.tail.printed
        self.tail.append(text, now)
        size = self.ledger.sizes.get("content", 0) + self.tail.printed - before
        self.ledger.resize("content", size, metrics)

    def queue(self, text: str, metrics: Metrics) -> None:
        """The command has printed more, and output is appended: it will be sent once."""
        self.prints = True
        self._pending_length += len(text)
        self._pending += (text[start : start + MOST_OUTPUT] for start in range(0, len(text), MOST_OUTPUT))
        self.ledger.resize("output", self.ledger.sizes.get("output", 0) + len(text.encode()), metrics)

    def output(self) -> str:
        """The next output to append, or nothing."""
        if not self._pending or (self._is_held_back and not self.is_ended):
            return ""
        length = self._offered = 0
        for piece in self._pending:
            length += len(piece)
            if length > MOST_OUTPUT:
                break
            self._offered += 1
        return "".join(islice(self._pending, self._offered))

    def ready(self, now: float, *, hurried: bool) -> None:
        """Decide what of its output is written now: all that waits if it is hurried, else what is due."""
        if self.is_ended:
            return
        if self.tail is not None:
            self.tail.choose(now, self._spent, hurried=hurried)
        elif self._pending:
            due = self._pending_length >= ENOUGH_OUTPUT or now - self._output_at >= OUTPUT_EVERY
            self._is_held_back = not (hurried or due)
            self._output_at = self._output_at if self._is_held_back else now

    def is_held(self, now: float) -> bool:
        """Whether it has printed something that is not due yet, and will be when some time has passed."""
        if self.is_ended or self.tail is None:
            return self._is_held_back and not self.is_ended
        return self.tail.is_waiting and not self.tail.is_overdue(now)

    def announcement(self) -> dict[str, Any]:
        """Every field that has a value, and the title. What waits to be appended comes between it and the end."""
        values = {"title": "", **_valued(self._shown())}
        if self.is_ended and self._pending:
            values["status"] = "in_progress"
        elif self.is_ended and self.exit_code is not UNSET:
            values["exit_code"] = self.exit_code
        return values

    def difference(self, *, full: bool = False) -> dict[str, Any]:
        """The fields that differ from what was sent; with the end, what it is about as well; nothing if none differ."""
        sent = self.sent
        assert sent is not None, "an announcement comes first"
        shown = self._shown()
        names = shown if self.tail or self.is_ended else self._dirty
        changed = {name: shown[name] for name in names if shown[name] is not sent.get(name) != shown[name]}
        if not changed:
            self._dirty.clear()
            return changed
        if self.is_ended:
            changed |= {name: shown[name] for name in _CONTEXT if shown[name]}
            if self.exit_code is not UNSET:
                changed["exit_code"] = self.exit_code
        return _valued(shown) | changed if full else changed

    def known(self) -> dict[str, Any]:
        """Every field that has a value and was sent, for observers that forget."""
        return _valued(self.sent or {})

    def delivered(self, fields: Mapping[str, Any]) -> dict[str, int]:
        """These fields have arrived; their sizes."""
        is_new = self.sent is None
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
        if "content" in sizes:
            self._spent += sizes["content"] + (0 if is_new else _ENVELOPE)
        return sizes

    def end_of_output(self) -> tuple[Item, ...]:
        """The content of a call that ends without one of its own: what it had, and what was printed."""
        content: tuple[Item, ...] = self.wanted["content"]
        return (*content, Text(self.tail.text())) if self.tail else content

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
                size += self.tail.printed
            news.append((name, value, size))
        return news

    def _shown(self) -> dict[str, Any]:
        if self.tail is None or not self.tail.shown or self.is_ended:
            return self.wanted
        return self.wanted | {"content": (*self.wanted["content"], Text(self.tail.shown))}

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
        return kept if kept is not None and kept.holds(value) else Raw.of(name, value)
    if not isinstance(value, str):
        raise TypeError(f"{name} of a call is a string, not a {type(value).__name__}")
    return clean(value)


def _valued(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value != () and value != ""}
