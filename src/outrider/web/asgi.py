"""The server as an ASGI app, for a server or a framework of others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import suppress
from inspect import isawaitable
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

from outrider.web.access import HEADERS
from outrider.web.http import MAX_BODY, RefusedError, Request, Response, explained, too_long
from outrider.web.server import Server

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Owner: TypeAlias = Callable[[Scope], str | Awaitable[str]]


class App:
    """An ASGI app. `owner` says who sends a request; an empty name is refused.

    Close it when your app ends; in a framework that runs the lifespan of mounted apps, that does it.
    """

    def __init__(self, server: Server, owner: Owner) -> None:
        self._server = server
        self._owner = owner
        self._starting: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self.start()
            response = await explained(lambda: self._answer(scope, receive))
            await _send(response, receive, send, is_head=scope["method"] == "HEAD")
        else:
            await send({"type": "websocket.close", "code": 1003})

    async def start(self) -> None:
        """Let the sessions of the API go on that were killed. The first request does it, too."""
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._server.start())
        await self._starting

    async def close(self) -> None:
        """End all streams, and suspend what runs here: it goes on after the next start."""
        await self._server.close()

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        await self.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        request = _request(scope, receive)
        route = self._server.route(request)
        if not route.is_public:
            found = self._owner(scope)
            request.owner = await found if isawaitable(found) else found
            if not request.owner:
                raise RefusedError(401, "log in first")
        return await route.answered(request)


def _request(scope: Scope, receive: Receive) -> Request:
    mount = scope.get("root_path", "")
    path = scope["path"]
    if mount and path.startswith(mount):
        path = path[len(mount) :]
    query = dict(parse_qsl(scope.get("query_string", b"").decode(errors="replace"), keep_blank_values=True))
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}

    async def read() -> bytes:
        data = bytearray()
        while True:
            message = await receive()
            data += message.get("body", b"")
            if len(data) > MAX_BODY:
                raise too_long()
            if message["type"] == "http.disconnect" or not message.get("more_body"):
                return bytes(data)

    return Request(scope["method"], path, query, headers, read, mount)


async def _send(response: Response, receive: Receive, send: Send, *, is_head: bool) -> None:
    own = {name.lower(): value for name, value in response.headers.items()}
    given = {"cache-control": "no-store", **{name.lower(): value for name, value in HEADERS.items()}, **own}
    headers = [(name.encode(), value.encode("latin-1", errors="replace")) for name, value in given.items()]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    body = b"" if is_head and isinstance(response.body, bytes) else response.body
    if isinstance(body, bytes):
        await send({"type": "http.response.body", "body": body})
        return
    writing = asyncio.ensure_future(_write(body, send))
    gone = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait([writing, gone], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (writing, gone):
            task.cancel()
        await asyncio.wait([writing, gone])


async def _write(pieces: AsyncIterator[bytes], send: Send) -> None:
    try:
        with suppress(OSError):  # the client is gone
            async for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
    finally:
        if close := getattr(pieces, "aclose", None):
            await close()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
