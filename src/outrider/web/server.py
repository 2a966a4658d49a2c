"""The server: routes to functions that read the log, on threads; the page itself; and what they have in common."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from importlib.resources import files
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
from aiohttp import web

from outrider.coding.session_lists import SessionList
from outrider.conversation.messages import AttachmentBlock
from outrider.conversation.store import SIZE_UNKNOWN
from outrider.errors import AttachmentError, OutriderError, SessionHeldError, UnknownSessionError
from outrider.log.log import Log
from outrider.log.questions import Say
from outrider.providers.rendering.documents import pdf_page
from outrider.struct_types import described
from outrider.web.access import Access, add_headers, refused
from outrider.web.entry_view import PDF, PICTURES, PageQuery, entries_page, whole_entry
from outrider.web.figures import INDEX_SECONDS, Figures, as_csv, context_by_turn, turn_rows
from outrider.web.hub import Hub
from outrider.web.page_questions import GivenAnswer, answer_question, read_question
from outrider.web.page_sessions import PageSessions
from outrider.web.session_list import ListQuery, list_sessions, session_head
from outrider.web.turn_request import turn_request

T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
MAX_BODY = 1_000_000
_PAGE = files("outrider.web") / "page"
_TYPES = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
    "json": "application/json",
}


class Server:
    """Serves the page of one log."""

    def __init__(self, log: Log, access: Access) -> None:
        self.log = log
        self.access = access
        self.figures = Figures(log)
        self.hub = Hub(log)
        self.talks = PageSessions(log)

    def app(self) -> web.Application:
        """Return the application."""
        app = web.Application(middlewares=[self.access.check, explain_errors], client_max_size=MAX_BODY)
        app.on_response_prepare.append(add_headers)
        below = self.access.path
        app.router.add_get("/", self._welcome)
        app.router.add_get("/{name:welcome\\.(?:css|js)}", self._file)
        app.router.add_get(f"{below}/", partial(self._file, name="index.html"))
        app.router.add_get(f"{below}/page/{{name:.+}}", self._file)
        self._add_reading(app.router, f"{below}/api")
        self._add_changing(app.router, f"{below}/api")
        app.router.add_get(f"{below}/api/events", self.hub.stream)
        app.on_startup.append(self._prepare)
        app.on_shutdown.extend([self.hub.close, self.talks.close, self._end_preparing])
        return app

    def _add_changing(self, router: web.UrlDispatcher, api: str) -> None:
        """Add the routes that change something."""
        router.add_post(f"{api}/links", self._new_link)
        router.add_post(f"{api}/sessions", self._begin)
        router.add_post(f"{api}/sessions/{{id}}/fork", self._fork)
        router.add_post(f"{api}/sessions/{{id}}/say", self._say)
        router.add_post(f"{api}/sessions/{{id}}/stop", self._stop)
        router.add_post(f"{api}/questions/{{id}}/answer", self._answer)

    def _add_reading(self, router: web.UrlDispatcher, api: str) -> None:
        """Add the routes that only read the log."""
        one, listed = f"{api}/sessions/{{id}}", SessionList(self.log)
        self._get(router, f"{api}/sessions", lambda of: list_sessions(listed, query(of, ListQuery)))
        self._get(router, f"{api}/facets", self._facets)
        self._get(router, one, lambda of: session_head(self.log, id_in(of)))
        self._get(router, f"{one}/entries", lambda of: entries_page(self.log, id_in(of), query(of, PageQuery)))
        self._get(router, f"{one}/entries/{{seq:\\d+}}", lambda of: whole_entry(self.log, id_in(of), number(of, "seq")))
        self._get(router, f"{one}/context", lambda of: context_by_turn(self.log, id_in(of)))
        router.add_get(f"{one}/context.csv", self._context_csv)
        router.add_get(f"{api}/figures/{{by}}.csv", self._csv)
        self._get(router, f"{api}/figures/{{by}}", self._figures_by)
        self._get(router, f"{one}/wire/{{seq:\\d+}}", self._wire)
        self._get(router, f"{api}/questions/{{id}}", lambda of: read_question(self.log, id_in(of)))
        router.add_get(f"{one}/files/{{sha256}}", self._attachment)
        router.add_get(f"{one}/files/{{sha256}}/pages/{{page:\\d+}}", self._pdf_page)

    @staticmethod
    def _get(router: web.UrlDispatcher, path: str, read: Callable[[web.Request], Any]) -> None:
        """Add a route that answers with JSON, which a thread makes."""

        async def handle(request: web.Request) -> web.Response:
            return json_response(await asyncio.to_thread(read, request))

        router.add_get(path, handle)

    # The page

    async def _welcome(self, request: web.Request) -> web.Response:
        token = request.query.get("token")
        if token is not None and (response := self.access.use_link(token)):
            return response
        page = page_file("welcome.html")
        page.set_status(401 if token is None else 403)
        return page

    async def _file(self, request: web.Request, name: str = "") -> web.Response:
        return page_file(name or request.match_info["name"])

    async def _new_link(self, request: web.Request) -> web.Response:
        return json_response({"links": [self.access.new_link(origin) for origin in self.access.origins]})

    # Sessions

    def _facets(self, request: web.Request) -> Any:
        folders, models = self.log.folders_and_models()
        return {"folders": folders, "models": models}

    def _figures_by(self, request: web.Request, seconds: float = INDEX_SECONDS) -> Any:
        days = request.query.get("days")
        return self.figures.by(request.match_info["by"], days=float(days) if days else None, seconds=seconds)

    async def _csv(self, request: web.Request) -> web.Response:
        found = await asyncio.to_thread(self._figures_by, request, threading.TIMEOUT_MAX)
        return csv_response(found["rows"], f"outrider-{request.match_info['by']}.csv")

    async def _context_csv(self, request: web.Request) -> web.Response:
        turns = await asyncio.to_thread(self.log.turns, id_in(request))
        return await asyncio.to_thread(csv_response, turn_rows(turns), "outrider-context.csv")

    async def _prepare(self, _: web.Application) -> None:
        self._preparing = asyncio.ensure_future(asyncio.to_thread(self.figures.prepare))

    async def _end_preparing(self, _: web.Application) -> None:
        self.figures.close()
        await asyncio.wait([self._preparing])

    def _wire(self, request: web.Request) -> Any:
        wanted, before = request.query.get("as", ""), request.query.get("before")
        place = self.log, id_in(request), number(request, "seq")
        return turn_request(*place, wanted, int(before) if before else None)

    async def _attachment(self, request: web.Request) -> web.Response:
        mime_type, name = request.query.get("type", ""), request.query.get("name", "")
        place = self.log, id_in(request), request.match_info["sha256"]
        return await asyncio.to_thread(file_response, *place, mime_type, name)

    async def _pdf_page(self, request: web.Request) -> web.Response:
        place = self.log, id_in(request), request.match_info["sha256"]
        return await asyncio.to_thread(pdf_page_response, *place, number(request, "page"))

    async def _fork(self, request: web.Request) -> web.Response:
        wanted = await body(request, _Fork)
        return json_response({"id": await asyncio.to_thread(self.log.fork, id_in(request), wanted.at)})

    # A session that works

    async def _answer(self, request: web.Request) -> web.Response:
        given = await body(request, GivenAnswer)
        settled = await asyncio.to_thread(answer_question, self.log, id_in(request), given.answer)
        if settled["first"] and settled["question"]:
            await self.talks.go_on(settled["question"]["session"])
        return json_response(settled)

    async def _begin(self, request: web.Request) -> web.Response:
        wanted = await body(request, _NewSession)
        return json_response({"id": await self.talks.begin(wanted.folder, Say(wanted.text))})

    async def _say(self, request: web.Request) -> web.Response:
        await self.talks.say(id_in(request), Say((await body(request, _Said)).text))
        return json_response({})

    async def _stop(self, request: web.Request) -> web.Response:
        await self.talks.stop(id_in(request))
        return json_response({})


class _Said(msgspec.Struct, frozen=True):
    text: str


class _NewSession(msgspec.Struct, frozen=True):
    folder: str
    text: str


class _Fork(msgspec.Struct, frozen=True):
    at: int | None = None
    """The last entry that the fork has."""


def page_file(name: str) -> web.Response:
    """Return a file of the page."""
    file = _PAGE
    for part in name.split("/"):
        if part in ("", ".", "..") or "\\" in part:
            return refused(404, "there is no such file")
        file = file / part
    kind = _TYPES.get(name.rpartition(".")[2])
    if kind is None or not file.is_file():
        return refused(404, "there is no such file")
    return web.Response(body=file.read_bytes(), content_type=kind, charset="utf-8")


@web.middleware
async def explain_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn errors into responses that say what is wrong."""
    try:
        return await handler(request)
    except (UnknownSessionError, AttachmentError) as error:
        return refused(404, str(error))
    except SessionHeldError as error:
        return refused(409, str(error))
    except (msgspec.MsgspecError, ValueError, OverflowError) as error:  # the latter for a number that no log has
        return refused(400, f"the request cannot be read: {error}")
    except OutriderError as error:
        return refused(422, str(error))
    except web.HTTPException as error:
        return refused(error.status, error.reason)


def json_response(value: Any) -> web.Response:
    """Return a value as JSON."""
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")


def csv_response(rows: Iterable[Mapping[str, Any]], name: str) -> web.Response:
    """Return rows as a file to save."""
    headers = {"Content-Disposition": f"attachment; filename={name}"}
    return web.Response(text=as_csv(rows), content_type="text/csv", headers=headers)


def query(request: web.Request, form: type[T]) -> T:
    """Return the query of a request. Empty values count as not given."""
    given: Mapping[str, str] = {name: value for name, value in request.query.items() if value}
    return msgspec.convert(given, described(form), strict=False)


async def body(request: web.Request, form: type[T]) -> T:
    """Return the body of a request, which must be JSON."""
    if request.content_type != "application/json":
        raise ValueError("send JSON")
    return msgspec.json.decode(await request.read(), type=described(form))


def id_in(request: web.Request) -> str:
    """Return the session that a request names."""
    return request.match_info["id"]


def number(request: web.Request, name: str) -> int:
    """Return a number in the path of a request."""
    return int(request.match_info[name])


_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cache-Control": "private, max-age=31536000, immutable",  # the address has the hash of the content
}
_UNSAFE = re.compile(r"[^\w.() -]")
PAGE_PIXELS = 1400


def file_response(log: Log, id: str, sha256: str, mime_type: str, name: str) -> web.Response:
    """Return a file of a session: a picture to show, or a download without a type."""
    data = _read(log, id, sha256)
    if mime_type in PICTURES and name == "":
        return web.Response(body=data, content_type=mime_type, headers=_HEADERS)
    plain = _UNSAFE.sub("_", name).strip(". ")[:120] or sha256[:12]
    disposition = f"attachment; filename*=UTF-8''{quote(plain)}"
    headers = _HEADERS | {"Content-Disposition": disposition}
    return web.Response(body=data, content_type="application/octet-stream", headers=headers)


def pdf_page_response(log: Log, id: str, sha256: str, number: int) -> web.Response:
    """Return a page of a PDF as a picture, with the number of all pages in a header. The PDF itself is not shown."""
    picture, total = pdf_page(_read(log, id, sha256, PDF), number, PAGE_PIXELS)
    return web.Response(body=picture, content_type="image/png", headers=_HEADERS | {"X-Pages": str(total)})


def _read(log: Log, id: str, sha256: str, mime_type: str = "") -> bytes:
    return log.files(id).read(AttachmentBlock(sha256, mime_type, SIZE_UNKNOWN))
