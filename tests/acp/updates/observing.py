"""A manual clock, and an observer that merges updates by the specification and rejects invalid ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET

from outrider.acp.updates.call_state import FIELDS, FINAL, CallState, Diff, Item, Text, Update, is_transition
from outrider.acp.updates.engine import Engine
from outrider.acp.updates.pacer import Delivery, UpdateTarget


class Clock:
    """Time that passes when it is told to, with timers."""

    def __init__(self) -> None:
        self.now = 0.0
        self._timers: list[_Timer] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], None]) -> _Timer:
        timer = _Timer(self.now + delay, callback)
        self._timers.append(timer)
        return timer

    @property
    def pending(self) -> int:
        return sum(not timer.is_cancelled for timer in self._timers)

    def advance(self, seconds: float) -> None:
        """Let time pass, and fire what is due in its order."""
        end = self.now + seconds
        while due := [timer for timer in self._timers if not timer.is_cancelled and timer.due <= end]:
            timer = min(due, key=lambda timer: timer.due)
            self._timers.remove(timer)
            self.now = max(self.now, timer.due)
            timer.callback()
        self.now = end


class _Timer:
    def __init__(self, due: float, callback: Callable[[], None]) -> None:
        self.due, self.callback, self.is_cancelled = due, callback, False

    def cancel(self) -> None:
        self.is_cancelled = True


class SlowReader:
    """A receiver that reads as fast as it is told to."""

    def __init__(self) -> None:
        self.is_congested = False
        self._waiting: list[Callable[[], None]] = []

    def when_drained(self, callback: Callable[[], None]) -> None:
        if self.is_congested:
            self._waiting.append(callback)
        else:
            callback()

    def read(self, *, slowly: bool) -> None:
        """Read slowly, or catch up."""
        self.is_congested = slowly
        while self._waiting and not slowly:
            self._waiting.pop()()

    @property
    def awaited(self) -> int:
        """How many wait for it to catch up."""
        return len(self._waiting)


class Observer:
    """Whoever gets the updates. `fails` makes it unreachable."""

    def __init__(self) -> None:
        self.updates: list[Update] = []
        self.states: dict[str, CallState] = {}
        self.last: dict[str, CallState] = {}
        """What an observer would know that takes a field for blank if an update leaves it out."""
        self.output: dict[str, str] = {}
        self.exits: dict[str, int | None] = {}
        self.content_bytes: dict[str, int] = {}
        self.fails = False
        self.attempts = 0

    def send(self, update: Update) -> int:
        self.attempts += 1
        if self.fails:
            raise BrokenPipeError("nobody reads")
        line = msgspec.json.encode(update)
        assert not has_null(update), line
        self._check_order(update)
        self.updates.append(update)
        self.states[update.id] = applied(self.states.get(update.id), update)
        self.last[update.id] = applied(None, msgspec.structs.replace(update, is_new=True))
        if update.output is not UNSET:
            assert update.output
            assert update.id not in self.exits
            self.output[update.id] = self.output.get(update.id, "") + update.output
        if update.exit_code is not UNSET:
            assert self.states[update.id].status in FINAL
            self.exits[update.id] = update.exit_code
        if update.content is not UNSET:
            self.content_bytes[update.id] = self.content_bytes.get(update.id, 0) + size(update.content)
        return len(line) + 100

    def _check_order(self, update: Update) -> None:
        before = self.states.get(update.id)
        assert (before is None) == update.is_new, "announced first, and once"
        assert update.changes, "an update changes something"
        if before is not None:
            assert before.status not in FINAL, "nothing comes after the end"
            assert update.status is UNSET or is_transition(before.status, update.status), "no status leads back"

    def take(self) -> list[dict[str, Any]]:
        """The fields of the updates since it was last asked, without their ids."""
        updates, self.updates = self.updates, []
        return [update.changes for update in updates]


def watched(receiver: Any = None, **options: Any) -> tuple[Engine, Observer, Clock]:
    """An engine, whoever watches it, and its time."""
    clock, observer = Clock(), Observer()
    engine = Engine(UpdateTarget(observer.send, receiver, clock.time, clock.call_later), Delivery(**options))
    return engine, observer, clock


def size(content: tuple[Item, ...]) -> int:
    """The bytes of the texts in a content."""
    total = 0
    for item in content:
        texts = [item.text] if isinstance(item, Text) else [item.new, item.old or ""] if isinstance(item, Diff) else []
        total += sum(len(text.encode()) for text in texts)
    return total


def has_null(update: Update) -> bool:
    """Whether a field is null, which would say that it is absent."""
    return any(value is None for name, value in update.changes.items() if name != "exit_code")


def applied(state: CallState | None, update: Update) -> CallState:
    """What an observer makes of an update by the specification: fields that are in it replace what it knew.

    A ValueError for an update of another call, or of one that was never announced.
    """
    fields = {name: value for name, value in update.changes.items() if name in FIELDS}
    if update.is_new:
        return CallState(update.id, **fields)
    if state is None or state.id != update.id:
        known = "nothing" if state is None else f"call {state.id}"
        raise ValueError(f"an update of call {update.id} came to whoever knew {known}; announce the call first")
    return msgspec.structs.replace(state, **fields)
