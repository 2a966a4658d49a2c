"""What happens in one session, for all pages that watch it: new entries, and the live events of its holder."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from outrider.coding.remote.live import live_events
from outrider.errors import LogError
from outrider.log.log import Log
from outrider.web.draft import Draft, Json, difference
from outrider.web.entry_view import EntryView
from outrider.web.event_stream import EventStream, encoded

PAGE = 200
MOST_BEHIND = 400
"""Entries that a page may be behind and still catch up one by one. Otherwise it reads the newest page."""
PACE_SECONDS = 0.05
"""The shortest time between two states of a growing reply. The first one is sent at once."""
MOST_STATES = 500
"""States of growing replies that are sent in a second, to all pages together: many pages get fewer each."""


class Feed:
    """One session. Entries are encoded once for all streams."""

    def __init__(self, log: Log, id: str) -> None:
        self._log = log
        self.id = id
        self._streams: set[EventStream] = set()
        self._joining: set[EventStream] = set()
        """Streams that still read what they missed."""
        self._seq = 0
        """The newest entry that all streams have."""
        self._folder = ""
        self._draft = Draft()
        self._shown: Json = {}
        self._reading = asyncio.Lock()
        self._live: asyncio.Task[None] | None = None
        self._sending: asyncio.TimerHandle | None = None
        self._sent_at = 0.0

    @property
    def is_empty(self) -> bool:
        """Whether no page watches."""
        return not self._streams and not self._joining

    async def join(self, stream: EventStream, after: int) -> None:
        """Send a stream the entries after one that it has, and then everything new."""
        self._joining.add(stream)
        async with self._reading:
            if not self._streams:
                summary = await asyncio.to_thread(self._log.session, self.id)
                self._seq, self._folder = summary.last, summary.folder
            if not 0 <= self._seq - after <= MOST_BEHIND:
                stream.send(encoded("reload", {"last": self._seq}, self._seq))
            else:
                await self._catch_up(stream, after)
            self._streams.add(stream)
            self._joining.discard(stream)
        stream.send(encoded("draft", {"keep": 0, **self._draft.fields()}))
        self.connect()

    async def _catch_up(self, stream: EventStream, after: int) -> None:
        while after < self._seq:
            entries, last = await asyncio.to_thread(self._read, after, self._seq)
            for entry in entries:
                stream.send(entry)
            after = last

    def leave(self, stream: EventStream) -> None:
        """Send a stream nothing more."""
        self._streams.discard(stream)
        self._joining.discard(stream)
        if not self._streams and self._live:
            self._live.cancel()
            self._live = None
            self._draft, self._shown = Draft(), {}

    async def advance(self) -> None:
        """Send the new entries of the log."""
        async with self._reading:
            while self._streams:
                entries, last = await asyncio.to_thread(self._read, self._seq, None)
                if last == self._seq:
                    return
                self._seq = last
                for entry in entries:
                    self._send(entry)

    def _read(self, after: int, upto: int | None) -> tuple[list[bytes], int]:
        """Return the next entries as events, and the seq of the last one that was read."""
        records = self._log.after(self.id, after, PAGE)
        kept = [each for each in records if upto is None or each.seq <= upto]
        if not kept:
            return [], after if upto is None else upto
        view = EntryView(self._folder)
        shown = [(each.seq, view.entry(each)) for each in kept]
        return [encoded("entry", entry, seq) for seq, entry in shown if entry], kept[-1].seq

    def _send(self, data: bytes) -> None:
        for stream in self._streams:
            stream.send(data)

    # Live events

    def connect(self) -> None:
        """Listen to the process that has the session open, unless that is so already or there is none."""
        if self._streams and (self._live is None or self._live.done()):
            self._live = asyncio.get_running_loop().create_task(self._listen())

    async def _listen(self) -> None:
        with suppress(LogError):  # no process shows it live
            async for event in live_events(self._log.live_socket(self.id)):
                made_entries = self._draft.apply(event)
                self._show_soon()
                if made_entries:
                    await self.advance()
        self._draft = Draft()
        self._show_soon()

    def _show_soon(self) -> None:
        if self._sending is None and self._streams:
            loop = asyncio.get_running_loop()
            pace = max(PACE_SECONDS, len(self._streams) / MOST_STATES)
            self._sending = loop.call_at(max(loop.time(), self._sent_at + pace), self._show)

    def _show(self) -> None:
        self._sending, self._sent_at = None, asyncio.get_running_loop().time()
        fields = self._draft.fields()
        if changed := difference(self._shown, fields):
            self._send(encoded("draft", changed))
        self._shown = fields
