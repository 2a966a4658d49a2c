"""The server on aiohttp, as `outrider serve` runs it: with the page, links and tokens."""

from __future__ import annotations

from contextlib import suppress
from importlib.resources import files

from aiohttp import web
from msgspec.structs import replace

from outrider.web.access import HEADERS, Access, check_origin, owner_of
from outrider.web.api import API
from outrider.web.api_answers import Links
from outrider.web.http import MAX_BODY, RefusedError, Request, Response, explained, post, too_long
from outrider.web.server import Server

_PAGE = files("outrider.web") / "page"
_TYPES = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
    "json": "application/json",
}


class AiohttpFront:
    """Serves the API and the page of one log, to those who have a link or a token."""

    def __init__(self, server: Server, access: Access) -> None:
        self._server = server
        self._access = access
        about = "Make links that let one browser in, once each."
        links = post(f"{API}/links", "createLinks", about, self._new_links, Links, None)
        server.add_routes([replace(links, is_private=True)])

    def app(self) -> web.Application:
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_route("*", r"/{path:[\s\S]*}", self._handle)  # also line breaks
        app.on_response_prepare.append(_hide_server)
        app.on_startup.append(lambda _: self._server.start())
        app.on_shutdown.append(lambda _: self._server.close())
        return app

    async def _handle(self, incoming: web.Request) -> web.StreamResponse:
        request = _request(incoming)
        response = await explained(lambda: self._answer(request))
        headers = {"Cache-Control": "no-store", **HEADERS, **response.headers}
        if isinstance(response.body, bytes):
            return web.Response(status=response.status, body=response.body, headers=headers)
        stream = web.StreamResponse(status=response.status, headers=headers)
        await stream.prepare(incoming)
        pieces = response.body
        try:
            with suppress(ConnectionError):
                async for piece in pieces:
                    await stream.write(piece)
        finally:
            await pieces.aclose()  # type: ignore[attr-defined]
        return stream

    async def _answer(self, request: Request) -> Response:
        check_origin(request.headers, self._access.origins)
        if inside := self._access.below(request.path):
            self._access.check_cookie(request)
            request.path, request.mount, request.is_page = inside, self._access.path, True
            if not inside.startswith((API, "/ag-ui/", "/openapi.json")):
                return page_file("index.html" if inside == "/" else inside.removeprefix("/page/"))
        elif request.path in ("/", "/welcome.css", "/welcome.js"):
            return self._welcome(request)
        route = self._server.route(request)
        if not request.is_page and not route.is_public:
            request.owner = owner_of(request.headers, self._access.tokens)
        return await route.answered(request)

    def _welcome(self, request: Request) -> Response:
        if request.path != "/":
            return page_file(request.path[1:])
        token = request.query.get("token")
        if token is not None and (response := self._access.use_link(token)):
            return response
        page = page_file("welcome.html")
        page.status = 401 if token is None else 403
        return page

    async def _new_links(self, request: Request, _: None) -> Links:
        return Links([self._access.new_link(origin) for origin in self._access.origins])


async def _hide_server(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.popall("Server", None)


def _request(incoming: web.Request) -> Request:
    async def read() -> bytes:
        try:
            return await incoming.read()
        except web.HTTPRequestEntityTooLarge:
            raise too_long() from None

    headers = {name.lower(): value for name, value in incoming.headers.items()}
    return Request(incoming.method, incoming.path, dict(incoming.query), headers, read)


def page_file(name: str) -> Response:
    """Return a file of the page. Raises RefusedError."""
    file = _PAGE
    for part in name.split("/"):
        if part in ("", ".", "..") or "\\" in part:
            raise RefusedError(404, "there is no such file")
        file = file / part
    kind = _TYPES.get(name.rpartition(".")[2])
    if kind is None or not file.is_file():
        raise RefusedError(404, "there is no such file")
    return Response(200, file.read_bytes(), {"Content-Type": f"{kind}; charset=utf-8"})
