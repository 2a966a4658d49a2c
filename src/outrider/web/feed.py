"""What happens in one session, for all who watch it: new entries, and the live events of its process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from outrider.errors import LogError
from outrider.log.entries import MessageEntry, Record
from outrider.log.log import Log
from outrider.text.terminal import rendered
from outrider.text.visible import safe_lines
from outrider.web.api_requests import Form
from outrider.web.entry_view import EntryView, entry_data
from outrider.web.http import EventStream, encoded
from outrider.web.markdown_nodes import Node, render

Json = dict[str, Any]
MAX_OUTPUT = 8_000
"""Characters of a call's output that are kept; the end is what people watch."""
MAX_THINKING = 2_000
_NOTICES = {
    "retrying": "The request failed; trying again…",
    "compaction_started": "Compacting the conversation…",
    "goal_check_started": "Checking the goal…",
}
_WITH_ENTRIES = (
    *("message_added", "tool_started", "tool_finished", "run_finished", "subagent_started", "compacted"),
    "goal_checked",
)


class Draft:
    """The state of a run, built from its events."""

    def __init__(self) -> None:
        self.is_working = False
        self._text = ""
        self._thinking = ""
        self._prepared: dict[str, str] = {}
        """The names of calls whose arguments are being written, by call id."""
        self._outputs: dict[str, str] = {}
        self._notice = ""
        self._rendered: tuple[str, list[Node]] = ("", [])

    def apply(self, event: Mapping[str, Any]) -> bool:
        """Apply an event. Return whether it also made entries in the log."""
        kind, text = event.get("type"), str(event.get("text") or "")
        match kind:
            case "text_delta":
                self._text += text
            case "thinking_delta":
                self._thinking += text
            case "tool_call_delta":
                self._prepared[str(event["call_id"])] = str(event["name"])
            case "tool_progress":
                self._add_output(str(event["call_id"]), event.get("content"))
            case "tool_finished":
                self._outputs.pop(str(event["call_id"]), None)
            case "reply_discarded" | "message_added" | "turn_started" | "run_finished":
                self._forget_reply()
            case "notice" | "retrying" | "compaction_started" | "goal_check_started":
                self._notice = text or _NOTICES.get(str(kind), "")
        self.is_working = self.is_working if kind == "session" else kind != "run_finished"
        return kind in _WITH_ENTRIES

    def _forget_reply(self) -> None:
        self._text = self._thinking = self._notice = ""
        self._prepared.clear()

    def _add_output(self, call_id: str, content: object) -> None:
        more = content.get("output") if isinstance(content, dict) else content
        if isinstance(more, str):
            ending = "" if isinstance(content, dict) else "\n"
            self._outputs[call_id] = f"{self._outputs.get(call_id, '')}{more}{ending}"[-MAX_OUTPUT:]

    def fields(self) -> Json:
        if self._rendered[0] != self._text:
            self._rendered = self._text, render(self._text)
        return {
            "working": self.is_working,
            "nodes": self._rendered[1],
            "thinking": safe_lines(self._thinking[-MAX_THINKING:]),
            "prepared": [safe_lines(name) for name in self._prepared.values()],
            "outputs": {call_id: safe_lines(rendered(output)) for call_id, output in self._outputs.items()},
            "notice": safe_lines(self._notice),
        }


def difference(before: Json, after: Json) -> Json:
    """Return what changed, for a page that has the state before. Of the nodes, only those from the first that differs.

    >>> difference({"nodes": ["a", "b"], "notice": ""}, {"nodes": ["a", "c"], "notice": ""})
    {'keep': 1, 'nodes': ['c']}
    """
    changed = {name: value for name, value in after.items() if name != "nodes" and before.get(name) != value}
    old, new = before.get("nodes", []), after["nodes"]
    if old != new:
        pairs = zip(old, new, strict=False)
        keep = next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(old), len(new)))
        changed |= {"keep": keep, "nodes": new[keep:]}
    return changed


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
        if last and field and all(last[2].get(name) == event.get(name) for name in ("type", "call_id")):
            last = entry, number, {**event, field: last[2][field] + event[field]}
            continue
        if last:
            yield last
        last = entry, number, event
    if last:
        yield last


PAGE = 200
MOST_BEHIND = 400
"""Entries that a page may be behind and still catch up one by one. Otherwise it reads the newest page."""
NEWEST = 20
"""Entries that are read to find the newest reply."""
PACE_SECONDS = 0.05
"""The shortest time between two states of a growing reply. The first one is sent at once."""
REST = 8
"""How many times as long as making a state the pause after it is."""
MOST_STATES = 500
"""States of growing replies that are sent in a second, to all pages together: many pages get fewer each."""
Live = Callable[[str], AsyncIterator[Json]]
"""Yields the events of a session in the process that has it open. Raises LogError if there is none."""


class Place:
    """Where a client is: the last entry that it has, and the number of the last live event after it."""

    def __init__(self, id: str) -> None:
        entry, _, number = id.partition(".")
        self.entry, self.number = int(entry), int(number or 0)


class Read(NamedTuple):
    """Entries of the log, as events in each form that is watched."""

    events: Mapping[Form, list[bytes]]
    last: int
    """The number of the last entry that was read."""
    reply: int = 0
    """The newest reply among them."""


class Feed:
    """One session. Entries are encoded once for all streams of a form."""

    def __init__(self, log: Log, id: str, live: Live) -> None:
        self._log = log
        self.id = id
        self._source = live
        self._streams: dict[EventStream, Form] = {}
        self._joining: set[EventStream] = set()
        """Streams that still read what they missed."""
        self.seq = 0
        """The newest entry that all streams have."""
        self._folder = ""
        self._step = LiveStep()
        self._draft = Draft()
        self._shown: Json = {}
        self._reading = asyncio.Lock()
        self._live: asyncio.Task[None] | None = None
        self._sending: asyncio.TimerHandle | None = None
        self._sent_at = 0.0

    @property
    def is_empty(self) -> bool:
        return not self._streams and not self._joining

    async def catch_up(self, stream: EventStream, place: Place, form: Form) -> AsyncIterator[bytes]:
        """Yield the entries after those that a client has. Then the stream gets everything new."""
        self._joining.add(stream)
        while True:
            async with self._reading:
                if not self._streams:
                    summary = await asyncio.to_thread(self._log.session, self.id)
                    self.seq, self._folder = summary.last, summary.folder
                    newest = await asyncio.to_thread(self._log.before, self.id, summary.last + 1, NEWEST)
                    self._step.finish(max((each.seq for each in newest if _is_reply(each)), default=0))
                is_far = not 0 <= self.seq - place.entry <= MOST_BEHIND
                if is_far and form == "view":
                    stream.send(encoded("reload", {"last": self.seq}, self.seq))
                    place.entry = self.seq
                elif place.entry > self.seq:  # the log is another one, or was restored
                    place.entry, place.number = 0, 0
                if self.seq - place.entry <= MOST_BEHIND:
                    await self._join(stream, place, form)
                    return
            read = await asyncio.to_thread(self._read, place.entry, self.seq, (form,))
            place.entry = read.last
            yield b"".join(read.events.get(form, ()))

    async def _join(self, stream: EventStream, place: Place, form: Form) -> None:
        while place.entry < self.seq:
            read = await asyncio.to_thread(self._read, place.entry, self.seq, (form,))
            place.entry = read.last
            for entry in read.events.get(form, ()):
                stream.send(entry)
        self._streams[stream] = form
        self._joining.discard(stream)
        if form == "view":
            stream.send(encoded("draft", {"keep": 0, **self._draft.fields()}))
        else:
            for event in self._step.rest(self.seq, place.number):
                stream.send(event)
        self.connect()

    def leave(self, stream: EventStream) -> None:
        """Send a stream nothing more."""
        self._streams.pop(stream, None)
        self._joining.discard(stream)
        if not self._streams and self._live:
            self._live.cancel()
            self._live = None
            self._draft, self._shown, self._step = Draft(), {}, LiveStep()

    async def advance(self) -> None:
        """Send the new entries of the log."""
        async with self._reading:
            while self._streams:
                read = await asyncio.to_thread(self._read, self.seq, None, set(self._streams.values()))
                if read.last == self.seq:
                    return
                self.seq = read.last
                if read.reply:
                    self._step.finish(read.reply)
                for stream, form in self._streams.items():
                    for entry in read.events.get(form, ()):
                        stream.send(entry)

    def _read(self, after: int, upto: int | None, forms: Iterable[Form]) -> Read:
        """Return the next entries as events in each form."""
        records = self._log.after(self.id, after, PAGE)
        kept = [each for each in records if upto is None or each.seq <= upto]
        if not kept:
            return Read({}, after if upto is None else upto)
        shows = {"view": EntryView(self._folder).entry, "data": entry_data}
        found: dict[Form, list[bytes]] = {}
        for form in forms:
            shown = ((each.seq, shows[form](each)) for each in kept)
            found[form] = [encoded("entry", entry, seq) for seq, entry in shown if entry]
        return Read(found, kept[-1].seq, max((each.seq for each in kept if _is_reply(each)), default=0))

    # Live events

    def connect(self) -> None:
        """Listen to the process that has the session open, unless that is so already or there is none."""
        if self._streams and (self._live is None or self._live.done()):
            self._live = asyncio.get_running_loop().create_task(self._listen())

    async def _listen(self) -> None:
        with suppress(LogError):  # no process shows it live
            async for event in self._source(self.id):
                made_entries = self._draft.apply(event)
                self._send(self._step.add(self.seq, event))
                self._show_soon()
                if made_entries:
                    await self.advance()
        self._send(self._step.end(self.seq))
        self._draft = Draft()
        self._show_soon()

    def _send(self, data: bytes, form: Form = "data") -> None:
        if data:
            for stream, wanted in self._streams.items():
                if wanted == form:
                    stream.send(data)

    def _show_soon(self) -> None:
        pages = sum(form == "view" for form in self._streams.values())
        if self._sending is None and pages:
            loop = asyncio.get_running_loop()
            pace = max(PACE_SECONDS, pages / MOST_STATES)
            self._sending = loop.call_at(max(loop.time(), self._sent_at + pace), self._show)

    def _show(self) -> None:
        now = asyncio.get_running_loop().time
        self._sending, began = None, now()
        fields = self._draft.fields()
        if changed := difference(self._shown, fields):
            self._send(encoded("draft", changed), "view")
        self._shown = fields
        self._sent_at = began + REST * (now() - began)  # a long reply takes long, and others wait


def _is_reply(record: Record) -> bool:
    return isinstance(record.entry, MessageEntry) and record.entry.message.role == "assistant"
