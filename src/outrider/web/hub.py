"""The streams of all pages, and one task that notices every change of the log for all of them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from aiohttp import web

from outrider.errors import LogError
from outrider.log.log import Log
from outrider.web.event_stream import EventStream, encoded
from outrider.web.feed import Feed
from outrider.web.page_questions import waiting_questions
from outrider.web.session_list import summary_fields

Json = dict[str, Any]
RECENT = 60
"""The most recently opened sessions, whose state pages are told. A session that works was opened lately."""
LIST_SECONDS = 1.0
"""The shortest time between two readings of that list."""
LOOK_SECONDS = 5.0
"""The longest time between two looks: a process that is killed changes nothing in the log."""


class Hub:
    """Sends what happens to the pages that are open."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._streams: set[EventStream] = set()
        self._feeds: dict[str, Feed] = {}
        self._questions: list[Json] = []
        self._asking = asyncio.Lock()
        self._sessions: dict[str, Json] = {}
        self._listed = 0.0
        self._watching: asyncio.Task[None] | None = None

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Answer a page's request for events, with those of a session if it names one."""
        stream = EventStream()
        session = request.query.get("session", "")
        after = int(request.headers.get("Last-Event-ID") or request.query.get("after") or 0)
        await self._look_at_questions()
        self._streams.add(stream)
        if self._watching is None or self._watching.done():
            self._watching = asyncio.get_running_loop().create_task(self._watch())
        stream.send(encoded("questions", self._questions))
        try:
            if session:
                await self._feed(session).join(stream, after)
            return await stream.run(request)
        finally:
            self._leave(stream, session)

    def disconnect(self) -> None:
        """End all streams. The pages come back."""
        for stream in list(self._streams):
            stream.close()

    async def close(self, _: web.Application | None = None) -> None:
        """End all streams, and look no more."""
        self.disconnect()
        if self._watching:
            self._watching.cancel()
            await asyncio.wait([self._watching])

    def _feed(self, session: str) -> Feed:
        if session not in self._feeds:
            self._feeds[session] = Feed(self._log, session)
        return self._feeds[session]

    def _leave(self, stream: EventStream, session: str) -> None:
        self._streams.discard(stream)
        if feed := self._feeds.get(session):
            feed.leave(stream)
            if feed.is_empty:
                del self._feeds[session]
        if not self._streams and self._watching:
            self._watching.cancel()
            self._watching = None

    # Changes

    async def _watch(self) -> None:
        changed = asyncio.Event()

        async def note_changes() -> None:
            async for _ in self._log.inbox.changes():
                changed.set()

        noting = asyncio.get_running_loop().create_task(note_changes())
        try:
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await changed.wait()
                changed.clear()
                await self._look()
        finally:
            noting.cancel()

    async def _look(self) -> None:
        """Tell the pages what has changed."""
        with suppress(LogError):  # busy or damaged; requests of the page say so
            await self._look_at_questions()
            for feed in list(self._feeds.values()):
                feed.connect()
                await feed.advance()
            await self._look_at_sessions()

    async def _look_at_questions(self) -> None:
        """Read the questions that wait, one reading at a time. Tell all pages if they are others than before."""
        async with self._asking:
            found = await asyncio.to_thread(waiting_questions, self._log)
            if found != self._questions:
                self._questions = found
                self._send(encoded("questions", found))

    async def _look_at_sessions(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._listed < LIST_SECONDS:
            return
        self._listed = now
        found = await asyncio.to_thread(lambda: [summary_fields(each) for each in self._log.sessions(RECENT)])
        is_first = not self._sessions  # the pages have just read the list themselves
        changed = [] if is_first else [each for each in found if self._sessions.get(each["id"]) != each]
        self._sessions = {each["id"]: each for each in found}
        if changed:
            self._send(encoded("sessions", changed))

    def _send(self, data: bytes) -> None:
        for stream in self._streams:
            stream.send(data)
