"""What happens in one session, for all who watch it: new entries, and the live events of its process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from outrider.errors import LogError
from outrider.log.entries import MessageEntry, Record
from outrider.log.log import Log
from outrider.web.api_requests import Form
from outrider.web.draft import Draft, Json, difference
from outrider.web.entry_view import EntryView, entry_data
from outrider.web.event_stream import EventStream, encoded
from outrider.web.live_step import LiveStep

PAGE = 200
MOST_BEHIND = 400
"""Entries that a page may be behind and still catch up one by one. Otherwise it reads the newest page."""
NEWEST = 20
"""Entries that are read to find the newest reply."""
PACE_SECONDS = 0.05
"""The shortest time between two states of a growing reply. The first one is sent at once."""
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
        """Whether nobody watches."""
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
        self._sending, self._sent_at = None, asyncio.get_running_loop().time()
        fields = self._draft.fields()
        if changed := difference(self._shown, fields):
            self._send(encoded("draft", changed), "view")
        self._shown = fields


def _is_reply(record: Record) -> bool:
    return isinstance(record.entry, MessageEntry) and record.entry.message.role == "assistant"
