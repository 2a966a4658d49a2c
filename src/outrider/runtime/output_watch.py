"""The typed answer of a run while it streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from outrider.conversation.json_text import GrowingObject
from outrider.runtime.events import Event, PartialOutput, ReplyDiscarded, TextDelta, ToolCallDelta


class OutputWatch:
    """Passes on the events of one reply, and emits the answer so far after each delta that adds to it."""

    def __init__(self, emit: Callable[[Event], None], tool: str, unwrapped: Callable[[dict[str, Any]], Any]) -> None:
        """`tool` is the tool whose arguments are the answer; "" if the text is. `unwrapped` may return UNSET."""
        self._emit, self._tool, self._unwrapped = emit, tool, unwrapped
        self._growing: dict[str, GrowingObject] = {}
        """What has arrived, by call id."""
        self._shown: Any = UNSET

    def __call__(self, event: Event) -> None:
        """Pass on an event."""
        self._emit(event)
        if isinstance(event, TextDelta):
            if not self._tool:
                self._add("", event.text)
        elif isinstance(event, ToolCallDelta):
            if self._tool == event.name:
                self._add(event.call_id, event.arguments)
        elif isinstance(event, ReplyDiscarded):
            self._growing, self._shown = {}, UNSET

    def _add(self, call_id: str, chunk: str) -> None:
        growing = self._growing.get(call_id) or self._growing.setdefault(call_id, GrowingObject())
        if (seen := growing.add(chunk)) is None:
            return
        data = self._unwrapped(seen)
        if data is not UNSET and data != self._shown:
            self._shown = data
            self._emit(PartialOutput(data))
