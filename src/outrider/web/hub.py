"""The streams of all clients, and one task that notices every change of the log for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import msgspec

from outrider.coding.mcp.forms import fields_of
from outrider.coding.remote.live import live_events
from outrider.coding.remote.questions import json_text, shown_diff
from outrider.errors import LogError
from outrider.log.log import Log
from outrider.log.questions import Body, ChoiceQuestion, ElicitationQuestion, PlanQuestion, Question, ResultQuestion
from outrider.struct_types import described
from outrider.text.visible import revealed, revealed_line, safe_line, safe_lines
from outrider.web.api_answers import SessionSummary
from outrider.web.api_requests import EventsQuery
from outrider.web.feed import Feed, Place
from outrider.web.http import RETRY_MILLISECONDS, EventStream, Request, Response, encoded, stream_response
from outrider.web.live_sessions import LiveSessions
from outrider.web.markdown_nodes import render, safe_address
from outrider.web.owners import Asked, Owners
from outrider.web.session_list import summary_of

Json = dict[str, Any]
MAX_TEXT = 500_000
"""Characters of a command or a diff that a list of questions has; one question alone has all."""


def question_fields(question: Question, limit: int | None = MAX_TEXT) -> Json:
    """Return a question as the page shows it: the whole command or diff, so that nothing is approved unseen.

    A longer text is cut at the limit; `cut` says how many characters are left out, and the page offers them.
    """
    return {
        "id": question.id,
        "session": question.session,
        "call_id": question.call_id,
        "asked": question.asked,
        **_body(question.body, limit),
        "options": [
            {"id": each.id, "label": revealed_line(each.label), "allows": each.allows, "words": each.takes_words}
            for each in question.body.options
        ],
        "answer": question.answer.option if question.answer else "",
        "answered_by": revealed_line(question.answered_by),
    }


def _body(body: Body, limit: int | None) -> Json:
    if isinstance(body, ElicitationQuestion):
        return _elicitation(body)
    if isinstance(body, ChoiceQuestion):
        return _choices(body)
    if isinstance(body, ResultQuestion):
        return {"kind": "result", "title": revealed_line(body.title)}
    if isinstance(body, PlanQuestion):
        return {"kind": "plan", "title": revealed_line(body.title), "nodes": render(revealed(body.plan))}
    command = body.input.get("command")
    texts = {
        "command": command if body.tool == "Bash" and isinstance(command, str) else "",
        "diff": shown_diff(body),
        "input": json_text(body.input),
    }
    return {
        "kind": "permission",
        "tool": revealed_line(body.tool),
        "title": revealed_line(body.title),
        "reason": revealed_line(body.reason),
        "access": revealed_line(body.access),
        "asker": revealed_line(body.asker),
        "facts": [revealed_line(each) for each in body.facts],
        **{name: revealed(text[:limit]) for name, text in texts.items()},
        "cut": {name: len(text) - limit for name, text in texts.items() if limit is not None and len(text) > limit},
        "always": [revealed_line(rule) for rule in body.always],
        "prefix": [revealed_line(rule) for rule in body.prefix],
    }


def _elicitation(body: ElicitationQuestion) -> Json:
    """Return a question of a server. The page shows `labels`, and sends the names and values of the schema."""
    return {
        "kind": "elicitation",
        "server": revealed_line(body.server),
        "message": safe_lines(body.message),
        "schema": body.schema,
        "labels": {
            each.name: {
                "label": each.label,
                "description": each.description,
                "options": [option.label for option in each.options],
            }
            for each in fields_of(body.schema or {})
        },
        "url": safe_address(body.url),
        "address": revealed_line(body.url),
    }


def _choices(body: ChoiceQuestion) -> Json:
    """Return what the model wants to know. The page shows the texts, and sends the keys and values."""
    return {
        "kind": "choice",
        "title": safe_line(body.title),
        "questions": [
            {
                "key": each.key,
                "header": safe_line(each.header),
                "text": safe_lines(each.text),
                "multiple": each.multiple,
                "own_words": each.own_words or not each.choices,
                "choices": [
                    {"value": c.label, "label": safe_line(c.label), "description": safe_line(c.description)}
                    for c in each.choices
                ],
            }
            for each in body.questions
        ],
    }


RECENT = 60
"""The most recently opened sessions, whose state clients are told. A session that works was opened lately."""
LIST_SECONDS = 1.0
"""The shortest time between two readings of that list."""
LOOK_SECONDS = 5.0
"""The longest time between two looks: a process that is killed changes nothing in the log."""


class Hub:
    """Sends what happens to those who watch."""

    def __init__(self, log: Log, sessions: LiveSessions, owners: Owners) -> None:
        self._log = log
        self._sessions = sessions
        self._owners = owners
        self._streams: dict[EventStream, EventsQuery] = {}
        self._feeds: dict[str, Feed] = {}
        self._questions: list[Asked] = []
        self._asking = asyncio.Lock()
        self._listed: dict[str, SessionSummary] = {}
        self._listed_at = 0.0
        self._watching: asyncio.Task[None] | None = None
        sessions.on_open = self._connect

    async def stream(self, request: Request, wanted: EventsQuery) -> Response:
        """Answer a request for events, with those of a session if it names one."""
        session = request.values.get("id") or wanted.session
        if last := request.headers.get("last-event-id"):
            wanted = msgspec.convert({"after": last, "form": wanted.form}, described(EventsQuery))
        if session:
            await asyncio.to_thread(self._owners.session, request.owner, session)
        self._owners.check_streams(request.owner, sum(each.owner == request.owner for each in self._streams))
        only_one = "id" in request.values
        wanted = msgspec.structs.replace(wanted, session=session)
        return stream_response(self._pieces(EventStream(request.owner), wanted, only_one=only_one))

    async def _pieces(self, stream: EventStream, wanted: EventsQuery, *, only_one: bool) -> AsyncIterator[bytes]:
        stream.only = wanted.session if only_one else ""
        self._streams[stream] = wanted  # at once: it counts from now on
        try:
            yield f"retry: {RETRY_MILLISECONDS}\n\n".encode()
            await self._look_at_questions()
            if self._watching is None or self._watching.done():
                self._watching = asyncio.get_running_loop().create_task(self._watch())
            self._send_questions(stream)
            if wanted.session:
                feed = self._feeds.setdefault(wanted.session, Feed(self._log, wanted.session, self._live))
                async for piece in feed.catch_up(stream, Place(wanted.after), wanted.form):
                    yield piece
            async for piece in stream.pieces():
                yield piece
        finally:
            self._leave(stream, wanted.session)

    def disconnect(self) -> None:
        """End all streams. Their clients come back."""
        for stream in list(self._streams):
            stream.close()

    async def close(self) -> None:
        """End all streams, and look no more."""
        self.disconnect()
        if self._watching:
            self._watching.cancel()
            await asyncio.wait([self._watching])

    async def _live(self, session: str) -> AsyncIterator[Json]:
        """Yield the events of a session: here, or in the process that has it open."""
        live = self._sessions.get(session)
        events = live.events() if live else live_events(self._log.live_socket(session))
        async for event in events:
            yield event

    def _connect(self, session: str) -> None:
        if feed := self._feeds.get(session):
            feed.connect()

    def _leave(self, stream: EventStream, session: str) -> None:
        self._streams.pop(stream, None)
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
        """Tell the clients what has changed."""
        with suppress(LogError):  # busy or damaged; other requests say so
            await self._look_at_questions()
            # Of a session that works here, the feed knows of every entry.
            feeds = [each for each in self._feeds.values() if self._sessions.get(each.id) is None]
            found = await asyncio.to_thread(self._log.summaries, [each.id for each in feeds]) if feeds else {}
            for feed in feeds:
                summary = found.get(feed.id)
                if summary and summary.holder:
                    feed.connect()
                if summary and summary.last > feed.seq:
                    await feed.advance()
            await self._look_at_sessions()

    async def _look_at_questions(self) -> None:
        """Read the questions that wait, one reading at a time. Tell the clients if they are others than before."""
        async with self._asking:
            found = await asyncio.to_thread(self._owners.questions)
            if found != self._questions:
                self._questions = found
                for stream in self._streams:
                    self._send_questions(stream)

    def _send_questions(self, stream: EventStream) -> None:
        mine = [each for each in self._questions if stream.owner in ("", each.owner) and stream.only in ("", each.root)]
        is_view = self._streams[stream].form == "view"
        shown = [question_fields(each.question) if is_view else each.question for each in mine]
        if (data := encoded("questions", shown)) != stream.questions:
            stream.questions = data
            stream.send(data)

    async def _look_at_sessions(self) -> None:
        now = asyncio.get_running_loop().time()
        streams = [each for each in self._streams if not each.only]
        if now - self._listed_at < LIST_SECONDS or not streams:
            return
        self._listed_at = now
        found = await asyncio.to_thread(lambda: [summary_of(each) for each in self._log.sessions(RECENT)])
        is_first = not self._listed  # the clients have just read the list themselves
        changed = [] if is_first else [each for each in found if self._listed.get(each.id) != each]
        self._listed = {each.id: each for each in found}
        for stream in streams:
            if mine := [each for each in changed if stream.owner in ("", each.owner)]:
                stream.send(encoded("sessions", mine))
