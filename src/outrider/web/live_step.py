"""The events of the step that goes on in a session, which its log does not have yet, each with an id of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from outrider.web.event_stream import encoded

Json = dict[str, Any]
MOST_KEPT = 2_000
"""Events that are kept. Then pieces of text that follow each other become one."""
WITH_ENTRIES = (
    *("message_added", "tool_started", "tool_finished", "compacted", "results_cleared", "run_finished", "title_made"),
    *("steering_queued", "steering_withdrawn", "question_asked", "question_answered", "session", "subagent_started"),
)
"""Events that the stream leaves out, because the log has an entry for each."""
_TEXTS = {"text_delta": "text", "thinking_delta": "text", "tool_call_delta": "arguments"}
_VOID = {"type": "reply_discarded", "reason": "the connection was lost, and this reply is sent from its beginning"}
_CUT = {"type": "reply_discarded", "reason": "the program of the session has ended"}


class LiveStep:
    """Numbers the events of a step. The id of the second one after entry 12 could be `12.1789000000002`.

    The numbers begin with the time in milliseconds, so that those of a server that was started again are others.
    """

    def __init__(self) -> None:
        self._number = time.time_ns() // 1_000_000
        self._kept: list[tuple[int, int, Json]] = []
        """The entry before each event, its number, and the event."""
        self._reply = 0
        """The newest reply that was read from the log."""
        self._seen = -1
        """The newest entry that the events named; -1 while there are none, because no process shows the session."""

    def add(self, entry: int, event: Json) -> bytes:
        """Add an event that follows an entry. Return it for the stream; b"" if it is not sent."""
        kind = str(event.get("type"))
        self._seen = max(self._seen, int(event.get("entry") or (self._reply if kind == "session" else 0)))
        is_late = self._seen < self._reply  # of a reply that was read from the log before its events came
        if kind in ("message_added", "turn_started", "reply_discarded", "run_finished"):
            self._kept.clear()
        if kind in WITH_ENTRIES or (is_late and kind in (*_TEXTS, "turn_started", "reply_discarded")):
            return b""
        self._number += 1
        if kind != "reply_discarded":
            self._kept.append((entry, self._number, event))
        if len(self._kept) > MOST_KEPT:
            self._kept = list(_merged(self._kept))
        return encoded(kind, event, f"{entry}.{self._number}")

    def finish(self, entry: int) -> None:
        """Forget the events of a reply that is in the log as this entry."""
        self._reply = max(self._reply, entry)
        self._kept.clear()

    def end(self, entry: int) -> bytes:
        """End the step because its process has gone. Return what says so if a reply was cut."""
        self._seen = -1
        is_cut = any(str(event.get("type")) in _TEXTS for _, _, event in self._kept)
        self._kept.clear()
        self._number += is_cut
        return encoded("reply_discarded", _CUT, f"{entry}.{self._number}") if is_cut else b""

    def rest(self, entry: int, after: int) -> Iterator[bytes]:
        """Yield the events that a client does not have, given the number of the last one that it has, or 0.

        One that has events of another step, or of another server, hears that they are void, and gets all.
        """
        first = self._kept[0][1] if self._kept else self._number + 1
        is_known = after == first - 1 or any(after == number for _, number, _ in self._kept)
        if after and not is_known:
            yield encoded("reply_discarded", _VOID, f"{entry}.{first - 1}")
        start = after if is_known else 0
        for before, number, event in self._kept:
            if number > start:
                yield encoded(str(event["type"]), event, f"{before}.{number}")


def _merged(kept: list[tuple[int, int, Json]]) -> Iterator[tuple[int, int, Json]]:
    """Yield events with pieces of one text as one, which has the number of the last."""
    last: tuple[int, int, Json] | None = None
    for entry, number, event in kept:
        field = _TEXTS.get(event["type"], "")
        if last and field and _same(last[2], event):
            last = entry, number, {**event, field: last[2][field] + event[field]}
            continue
        if last:
            yield last
        last = entry, number, event
    if last:
        yield last


def _same(one: Json, other: Json) -> bool:
    return one["type"] == other["type"] and one.get("call_id") == other.get("call_id")
