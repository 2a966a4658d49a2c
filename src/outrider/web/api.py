"""The API of sessions: what each of its routes does. The page uses it, and so can every other program.

Files are pictures to show, downloads without a type, or pages of PDFs as pictures.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from outrider.coding.session_lists import SessionList
from outrider.coding.stored_request import end_of_request, pretty, sending_provider
from outrider.conversation.messages import AttachmentBlock
from outrider.conversation.store import SIZE_UNKNOWN
from outrider.errors import AttachmentError, ConversationError, LogError, MissingKeyError, UnknownModelError
from outrider.log.entries import MessageEntry
from outrider.log.log import Log
from outrider.log.questions import Answer
from outrider.log.summary import Summary
from outrider.providers.rendering.documents import pdf_page
from outrider.providers.transport.network import without_password
from outrider.struct_types import described
from outrider.text.visible import safe_lines
from outrider.web import api_answers as a
from outrider.web import api_requests as r
from outrider.web.entry_view import PDF, PICTURES, entries_page, whole_entry
from outrider.web.figures import INDEX_SECONDS, Figures, as_csv, context_by_turn, list_evals, one_eval, turn_rows
from outrider.web.http import Request, Response, Route, get, post
from outrider.web.hub import Hub, question_fields
from outrider.web.live_session import PLACE
from outrider.web.live_sessions import LiveSessions
from outrider.web.owners import Owners
from outrider.web.session_list import list_sessions, session_details

API = "/api/v1"
BINARY, CSV, EVENTS = "application/octet-stream", "text/csv", "text/event-stream"
MESSAGES_SIZE = 4_000_000
"""Bytes of a session that are read at most for its newest messages."""


class Api:
    """Answers the requests of the API. Everything that reads the log does so on a thread."""

    def __init__(self, log: Log, sessions: LiveSessions, owners: Owners, hub: Hub, figures: Figures) -> None:
        self._log, self._sessions, self._owners, self._hub, self._figures = log, sessions, owners, hub, figures
        self._listed = SessionList(log)

    def routes(self, *, is_shared: bool) -> Iterator[Route]:
        """Yield the routes. A server with owners leaves those out that show sessions of all, and system prompts."""
        yield from self._session_routes()
        yield from self._reading_routes()
        yield from self._question_routes()
        if not is_shared:
            yield from (msgspec.structs.replace(each, is_private=True) for each in self._own_routes())

    def _session_routes(self) -> Iterator[Route]:
        one = f"{API}/sessions/{{id}}"
        yield get(f"{API}/sessions", "listSessions", "List or search sessions.", self._list, a.SessionPage, r.ListQuery)
        about = "Begin a session. It answers when the first message is stored; the reply comes as events."
        yield post(f"{API}/sessions", "createSession", about, self._create, a.Created, r.NewSession, 201)
        details = self._reads(lambda found, *_: session_details(self._log, found))
        yield get(one, "getSession", "Return a session with its state.", details, a.SessionDetails)
        about = "Send a message: it begins a run, or joins the one that goes on. It answers when the message is stored."
        yield post(f"{one}/prompt", "prompt", about, self._prompt, a.Created, r.Said, 202)
        about = "Send a message to the run that goes on, which takes it at its next step."
        yield post(f"{one}/steer", "steer", about, self._steer, a.Created, r.Said, 202)
        about = "Set the goal of a session, which works until the command succeeds, or end it with an empty one."
        yield post(f"{one}/goal", "setGoal", about, self._goal, a.Created, r.Goal, 202)
        about = "Cancel the run of a session, or stop a sub-agent that works in the background."
        yield post(f"{one}/cancel", "cancel", about, self._cancel, a.Created, None, 202)
        about = "Copy a session, up to an entry."
        yield post(f"{one}/fork", "forkSession", about, self._fork, a.Created, r.Fork, 201)
        about = "Return what today has cost against the budgets that bound a session."
        yield get(f"{one}/budget", "getBudget", about, self._budget, a.Budgets)
        about = "Stream what happens in a session: entries, each with its number as the id, and live events."
        yield get(f"{one}/events", "sessionEvents", about, self._hub.stream, EVENTS, r.EventsQuery)
        about = (
            "Stream the questions that wait and the sessions that change, and the events of one session if it is named."
        )
        yield get(f"{API}/events", "events", about, self._hub.stream, EVENTS, r.EventsQuery)

    def _reading_routes(self) -> Iterator[Route]:
        one = f"{API}/sessions/{{id}}"
        about = "Return entries of a session: a page of them."
        read = self._reads(lambda found, _, query: entries_page(self._log, found, query))
        yield get(f"{one}/entries", "listEntries", about, read, a.EntriesPage, r.PageQuery)
        about = "Return one entry, whole."
        read = self._reads(lambda found, of, query: whole_entry(self._log, found, _number(of, "seq"), query))
        yield get(f"{one}/entries/{{seq}}", "getEntry", about, read, dict[str, Any], r.FormQuery)
        about = "Return the newest messages, as the model gets them."
        yield get(f"{one}/messages", "listMessages", about, self._reads(self._messages), a.Messages, r.MessagesQuery)
        about = "Return a file of a session by its SHA-256: pictures with their type, all others as downloads."
        read = self._reads(
            lambda found, of, query: file_response(self._log, found.id, of.values["sha256"], query.type, query.name)
        )
        yield get(f"{one}/files/{{sha256}}", "getFile", about, read, BINARY, r.FileQuery)
        about = "Return a page of a PDF as a picture."
        read = self._reads(
            lambda found, of, _: pdf_page_response(self._log, found.id, of.values["sha256"], _number(of, "page"))
        )
        pages = {"X-Pages": "The number of pages of the PDF."}
        yield msgspec.structs.replace(
            get(f"{one}/files/{{sha256}}/pages/{{page}}", "getPdfPage", about, read, "image/png"), headers=pages
        )
        read = self._reads(
            lambda found, *_: msgspec.convert(context_by_turn(self._log, found.id), described(a.ContextByTurn))
        )
        yield get(f"{one}/context", "getContext", "Return the context of a session by turn.", read, a.ContextByTurn)
        read = self._reads(lambda found, *_: csv_response(turn_rows(self._log.turns(found.id)), "outrider-context.csv"))
        yield get(f"{one}/context.csv", "getContextCsv", "Return the context of a session by turn.", read, CSV)

    def _question_routes(self) -> Iterator[Route]:
        one = f"{API}/questions/{{id}}"
        yield get(
            f"{API}/questions",
            "listQuestions",
            "List the questions that wait.",
            self._questions,
            a.Questions,
            r.QuestionsQuery,
        )
        about = "Return a question, also one that was answered."
        yield get(one, "getQuestion", about, self._question, dict[str, Any], r.FormQuery)
        about = "Answer a question. The first answer counts, wherever it is given."
        yield post(f"{one}/answer", "answer", about, self._answer, a.Settled, Answer)

    def _own_routes(self) -> Iterator[Route]:
        wire = self._reads(
            lambda found, of, query: turn_request(self._log, found.id, _number(of, "seq"), query.model, query.before)
        )
        about = "Return the exact request whose reply is an entry, for its model or another."
        yield get(f"{API}/sessions/{{id}}/wire/{{seq}}", "getRequest", about, wire, a.TurnRequest, r.WireQuery)
        about = "Return the folders and models of all sessions."
        read = _threaded(lambda *_: a.Facets(*self._log.folders_and_models()))
        yield get(f"{API}/facets", "getFacets", about, read, a.Facets)
        about = "List the evals, with the figures of their models."
        yield get(f"{API}/evals", "listEvals", about, _threaded(lambda *_: list_evals(self._log)), a.EvalPage)
        about = "Return an eval with its trials, and how it compares with another."
        read = _threaded(lambda of, query: one_eval(self._log, of.values["name"], query.against))
        yield get(f"{API}/evals/{{name}}", "getEval", about, read, a.EvalDetails, r.EvalQuery)
        about = "Return cost and tokens by day, model or folder."
        yield get(f"{API}/figures/{{by}}.csv", "getFiguresCsv", about, self._figures_csv, CSV, r.FiguresQuery)
        yield get(f"{API}/figures/{{by}}", "getFigures", about, self._figures_by, a.UsageReport, r.FiguresQuery)

    def _reads(self, read: Callable[[Summary, Request, Any], Any]) -> Callable[[Request, Any], Any]:
        """Return a function that reads the session of a request, on a thread."""

        def answer(request: Request, query: Any) -> Any:
            return read(self._owners.session(request.owner, request.values["id"]), request, query)

        return _threaded(answer)

    async def _found(self, request: Request) -> Summary:
        return await asyncio.to_thread(self._owners.session, request.owner, request.values["id"])

    # Sessions

    async def _list(self, request: Request, query: r.ListQuery) -> a.SessionPage:
        if request.owner:
            query = msgspec.structs.replace(query, owner=request.owner)
        found = await asyncio.to_thread(list_sessions, self._listed, query)
        return msgspec.structs.replace(found, folders=()) if request.owner else found

    def _messages(self, found: Summary, request: Request, query: r.MessagesQuery) -> a.Messages:
        entries = query.limit * 4
        state, left_out = self._log.state_at_end(found.id, found.last, entries=entries, size=MESSAGES_SIZE)
        newest = state.messages[-query.limit :]
        return a.Messages(newest, bool(left_out) or len(newest) < len(state.messages))

    async def _create(self, request: Request, wanted: r.NewSession) -> a.Created:
        if request.owner:
            wanted = msgspec.structs.replace(wanted, owner=request.owner)
        self._owners.check_prompt(wanted.owner)
        return a.Created(await self._sessions.begin(wanted, is_page=request.is_page))

    async def _prompt(self, request: Request, said: r.Said) -> a.Created:
        found = await self._found(request)
        self._owners.check_prompt(found.owner, found.id)
        await self._sessions.say(found.id, said.text, said.mode)
        return a.Created(found.id)

    async def _steer(self, request: Request, said: r.Said) -> a.Created:
        found = await self._found(request)
        live = self._sessions.get(found.id)
        details = await asyncio.to_thread(session_details, self._log, found)
        if not details.working or (live is not None and live.has_ended):
            raise ConversationError("no run goes on in this session; send a prompt")
        return await self._prompt(request, said)

    async def _goal(self, request: Request, goal: r.Goal) -> a.Created:
        found = await self._found(request)
        self._owners.check_prompt(found.owner, found.id)
        await self._sessions.set_goal(found.id, goal.command)
        return a.Created(found.id)

    async def _budget(self, request: Request, _: None) -> a.Budgets:
        """An owner sees the own budget alone: the others say what all have spent."""
        found = await self._found(request)
        spent = await asyncio.to_thread(self._sessions.spent_today, found)
        mine = [each for each in spent if not request.owner or each.name == "owner_day"]
        return a.Budgets([a.Spent(each.name, each.cost, each.budget, each.text, each.is_warned) for each in mine])

    async def _cancel(self, request: Request, _: None) -> a.Created:
        found = await self._found(request)
        await self._sessions.cancel(found.parent or found.id, found.id if found.parent else "")
        return a.Created(found.id)

    async def _fork(self, request: Request, wanted: r.Fork) -> a.Created:
        found = await self._found(request)
        return a.Created(await asyncio.to_thread(self._log.fork, found.id, wanted.at))

    # Questions

    async def _questions(self, request: Request, query: r.QuestionsQuery) -> a.Questions:
        found = await asyncio.to_thread(self._owners.questions)
        mine = [each for each in found if request.owner in ("", each.owner) and query.session in ("", each.root)]
        shown = [question_fields(each.question) if query.form == "view" else each.question for each in mine]
        return a.Questions(shown)

    async def _question(self, request: Request, query: r.FormQuery) -> Any:
        found = await asyncio.to_thread(self._owners.question, request.owner, request.values["id"])
        return question_fields(found, limit=None) if query.form == "view" else found

    async def _answer(self, request: Request, given: Answer) -> a.Settled:
        found = await asyncio.to_thread(self._owners.question, request.owner, request.values["id"])
        is_first = await asyncio.to_thread(self._log.inbox.answer, found.id, given, request.owner or PLACE)
        if is_first:
            await self._sessions.go_on(found.session)
        now = await asyncio.to_thread(self._log.inbox.question, found.id)
        return a.Settled(is_first, question_fields(now) if now else None)

    # Figures

    async def _figures_by(self, request: Request, query: r.FiguresQuery) -> a.UsageReport:
        found = await asyncio.to_thread(self._figures.by, request.values["by"], days=query.days, seconds=INDEX_SECONDS)
        return msgspec.convert(found, described(a.UsageReport))

    async def _figures_csv(self, request: Request, query: r.FiguresQuery) -> Response:
        by = request.values["by"]
        found = await asyncio.to_thread(self._figures.by, by, days=query.days, seconds=threading.TIMEOUT_MAX)
        return csv_response(found["rows"], f"outrider-{by}.csv")


def csv_response(rows: Iterable[Mapping[str, Any]], name: str) -> Response:
    """Return rows as a file to save."""
    headers = {"Content-Type": f"{CSV}; charset=utf-8", "Content-Disposition": f"attachment; filename={name}"}
    return Response(200, as_csv(rows).encode(), headers)


def _threaded(read: Callable[[Request, Any], Any]) -> Callable[[Request, Any], Any]:
    return lambda request, query: asyncio.to_thread(read, request, query)


def _number(request: Request, name: str) -> int:
    return int(request.values[name][:19])


FILE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cache-Control": "private, max-age=31536000, immutable",  # the address has the hash of the content
}
_UNSAFE = re.compile(r"[^\w.() -]")
_HASH = re.compile(r"[0-9a-f]{64}")
PAGE_PIXELS = 1400


def file_response(log: Log, id: str, sha256: str, mime_type: str, name: str) -> Response:
    """Return a file of a session: a picture to show, or a download without a type."""
    data = _read(log, id, sha256)
    if mime_type in PICTURES and name == "":
        return Response(200, data, {**FILE_HEADERS, "Content-Type": mime_type})
    plain = _UNSAFE.sub("_", name).strip(". ")[:120] or sha256[:12]
    disposition = f"attachment; filename*=UTF-8''{quote(plain)}"
    kind = "application/octet-stream"
    return Response(200, data, {**FILE_HEADERS, "Content-Type": kind, "Content-Disposition": disposition})


def pdf_page_response(log: Log, id: str, sha256: str, number: int) -> Response:
    """Return a page of a PDF as a picture, with the number of all pages in a header. The PDF itself is not shown."""
    picture, total = pdf_page(_read(log, id, sha256, PDF), number, PAGE_PIXELS)
    return Response(200, picture, {**FILE_HEADERS, "Content-Type": "image/png", "X-Pages": str(total)})


def _read(log: Log, id: str, sha256: str, mime_type: str = "") -> bytes:
    if not _HASH.fullmatch(sha256):
        raise AttachmentError("a file is named by its SHA-256, in lower case")
    return log.files(id).read(AttachmentBlock(sha256, mime_type, SIZE_UNKNOWN))


EXAMPLE_MODEL = "anthropic/balanced"
"""For sessions of models that run in the process and send no request."""


def turn_request(log: Log, id: str, seq: int, wanted: str = "", before: int | None = None) -> a.TurnRequest:
    """Return the request whose reply is entry `seq`: for its model, or for another.

    A long request is shown in pages, each with some of its messages. The first page has the newest; `earlier` is the
    `before` of the next one, or None.
    """
    records = log.after(id, seq - 1, 1)
    if not records or not isinstance(entry := records[0].entry, MessageEntry) or entry.message.role != "assistant":
        raise LogError(f"entry {seq} is not a reply")
    model, provider = wanted, None
    for name in [wanted] if wanted else [entry.model, log.session(id).model, EXAMPLE_MODEL]:
        try:
            model, provider = name, sending_provider(name)
            break
        except (UnknownModelError, MissingKeyError):
            if name in (wanted, EXAMPLE_MODEL):
                raise
    assert provider
    request, earlier = end_of_request(log, id, model, reply=seq, before=before)
    url, loss = without_password(provider.url()), log.cache_loss(id, seq)
    return a.TurnRequest(
        model=safe_lines(model),
        address=f"POST {url}" if "://" in url else url,
        body=safe_lines(pretty(provider.render(request)).decode()),
        earlier=earlier + 1 if earlier else None,
        lost=safe_lines(str(loss)) if loss else "",
    )
