"""Clients over streamable HTTP on this machine, each with the token that was printed at the start."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
from aiohttp import web

from outrider import jsonrpc
from outrider.acp.handlers import to_rpc_error
from outrider.jsonrpc import METHOD_NOT_FOUND, NULL, IncomingMessage, RpcError
from outrider.mcp import protocol
from outrider.mcp_server.host import Host, unsupported
from outrider.struct_types import described
from outrider.web.access import check_origin, owner_of
from outrider.web.http import RefusedError

PATH = "/mcp"
MAX_BODY = 4 * 1024 * 1024
MOST_SESSIONS = 100
SESSION = "Mcp-Session-Id"
VERSION = "MCP-Protocol-Version"
HEADER_MISMATCH = -32020
_OPTIONAL: Any = dict[str, Any] | None


class _Session:
    """A client that began with `initialize`: its capabilities, and the questions that it was asked."""

    def __init__(self, capabilities: Mapping[str, Any]) -> None:
        self.capabilities = capabilities
        self.asked: dict[bytes, asyncio.Future[IncomingMessage]] = {}
        self.running: dict[bytes, asyncio.Task[Any]] = {}
        """The calls that go on, by the keys of their ids."""
        self.ids = itertools.count(1)


class _Stream:
    """The response to one request, as server-sent events: what is told and asked meanwhile, then the result."""

    def __init__(self, response: web.StreamResponse, session: _Session) -> None:
        self._response, self._session = response, session
        self.capabilities = session.capabilities
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()

    def notify(self, method: str, params: dict[str, Any]) -> None:
        self._lines.put_nowait(jsonrpc.notification(method, params))

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request, and return the result that another POST brings. Raises RpcError."""
        number = b"%d" % next(self._session.ids)
        answer = self._session.asked[number] = asyncio.get_running_loop().create_future()
        self._lines.put_nowait(jsonrpc.request(number, method, params))
        try:
            message = await answer
        finally:
            self._session.asked.pop(number, None)
        if message.error:
            raise RpcError.internal("The client refused the question.")
        found: Any = msgspec.json.decode(message.result, type=described(_OPTIONAL))
        return found or {}

    async def write_until(self, answer: asyncio.Task[bytes]) -> None:
        """Send what is told until the answer is there, and then the answer."""
        while not answer.done():
            told = asyncio.ensure_future(self._lines.get())
            await asyncio.wait([answer, told], return_when=asyncio.FIRST_COMPLETED)
            if told.done():
                await self._send(told.result())
            told.cancel()
        while not self._lines.empty():
            await self._send(self._lines.get_nowait())
        await self._send(answer.result())

    async def _send(self, line: bytes) -> None:
        await self._response.write(b"event: message\ndata: %b\n\n" % line.strip())


class HttpServer:
    """Serves one host. Everything but the right token, host and origin is refused."""

    def __init__(self, host: Host, token: str | None) -> None:
        """Without a token, whoever reaches the port is let in: for tests alone."""
        self._host, self._token = host, token
        self._sessions: dict[str, _Session] = {}
        self.origins: set[str] = set()
        """The addresses of this server, as in http://127.0.0.1:8322."""

    def app(self) -> web.Application:
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_post(PATH, self._post)
        app.router.add_delete(PATH, self._delete)
        app.router.add_get(PATH, self._get)
        return app

    # Requests

    async def _get(self, request: web.Request) -> web.Response:
        self._check(request)
        return web.Response(status=405, headers={"Allow": "POST, DELETE"})  # there is nothing to listen to

    async def _delete(self, request: web.Request) -> web.Response:
        self._check(request)
        found = self._sessions.pop(request.headers.get(SESSION, ""), None)
        for task in (found.running if found else {}).values():
            task.cancel()
        return web.Response(status=200 if found else 404)

    async def _post(self, request: web.Request) -> web.StreamResponse:
        self._check(request)
        number = NULL
        try:
            message = jsonrpc.parse(await request.read())
            if message.is_response:
                return self._take_answer(request, message)
            method = message.method_name()
            params = jsonrpc.decode(message.params, _OPTIONAL) or {}
            number = bytes(message.id)
            if not number:
                return self._take_notification(request, method, params)
            return await self._answer(request, number, method, params)
        except (RpcError, msgspec.DecodeError, RecursionError) as error:
            problem = error if isinstance(error, RpcError) else RpcError.invalid_params("The parameters are not valid.")
            return _json(
                jsonrpc.error_response(number or NULL, problem), 404 if problem.code == METHOD_NOT_FOUND else 400
            )

    def _check(self, request: web.Request) -> None:
        """Refuse pages of a browser, other names of this machine, and wrong tokens."""
        try:
            check_origin(request.headers, self.origins)
            if self._token is not None:
                owner_of(request.headers, [(self._token, "")])
        except RefusedError as refused:
            if refused.status == 403:
                raise web.HTTPForbidden(text=refused.reason) from None
            raise web.HTTPUnauthorized(text=refused.reason, headers={"WWW-Authenticate": "Bearer"}) from None

    async def _answer(self, request: web.Request, id: bytes, method: str, params: dict[str, Any]) -> web.StreamResponse:
        session, headers = self._session(request, method, params), {}
        if method == protocol.INITIALIZE:
            name = os.urandom(16).hex()
            while len(self._sessions) >= MOST_SESSIONS:
                self._sessions.pop(next(iter(self._sessions)))
            self._sessions[name] = session
            headers = {SESSION: name}
        if method != protocol.CALL_TOOL:
            stream = _Stream(web.StreamResponse(), session)
            return _json(jsonrpc.response(id, await self._host.answer(method, params, stream)), 200, headers)
        return await self._stream(request, id, params, session)

    async def _stream(
        self, request: web.Request, id: bytes, params: dict[str, Any], session: _Session
    ) -> web.StreamResponse:
        """Answer a call with a stream. If the client closes it, the call is cancelled."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        await response.prepare(request)
        stream, key = _Stream(response, session), jsonrpc.id_key(id)
        answer = asyncio.ensure_future(self._call(id, params, stream))
        session.running[key] = answer
        try:
            await stream.write_until(answer)
            await response.write_eof()
        except (ConnectionError, asyncio.CancelledError):
            answer.cancel()
            with suppress(asyncio.CancelledError):
                await answer
            raise
        finally:
            session.running.pop(key, None)
        return response

    async def _call(self, id: bytes, params: dict[str, Any], stream: _Stream) -> bytes:
        try:
            return jsonrpc.response(id, await self._host.answer(protocol.CALL_TOOL, params, stream))
        except asyncio.CancelledError:
            return jsonrpc.error_response(id, RpcError(jsonrpc.CANCELLED, "The call was cancelled."))
        except Exception as error:  # noqa: BLE001 - every request gets a response
            return jsonrpc.error_response(id, to_rpc_error(protocol.CALL_TOOL, error))

    # Sessions

    def _session(self, request: web.Request, method: str, params: dict[str, Any]) -> _Session:
        """Return the session of a request. Raises RpcError, and HTTPNotFound for a session that is over."""
        version, meta = request.headers.get(VERSION), params.get("_meta")
        named = meta.get(protocol.VERSION_KEY) if isinstance(meta, dict) else None
        if named is not None or version in protocol.MODERN_VERSIONS or method == protocol.DISCOVER:
            _check_headers(request, method, params, named)
            return _Session({})
        if version is not None and version not in protocol.HANDSHAKE_VERSIONS:
            raise unsupported(version)
        if method == protocol.INITIALIZE:
            offered = params.get("capabilities")
            return _Session(offered if isinstance(offered, dict) else {})
        return self._known(request)

    def _known(self, request: web.Request) -> _Session:
        name = request.headers.get(SESSION)
        if name is None:
            raise RpcError.invalid_request(f"The request has no {SESSION}: begin with initialize.")
        if name not in self._sessions:
            raise web.HTTPNotFound(text="The session is over: begin with initialize.")
        return self._sessions[name]

    def _take_answer(self, request: web.Request, message: IncomingMessage) -> web.Response:
        asked = self._known(request).asked.pop(bytes(message.id), None)
        if asked and not asked.done():
            asked.set_result(message)
        return web.Response(status=202)

    def _take_notification(self, request: web.Request, method: str, params: dict[str, Any]) -> web.Response:
        if method == protocol.CANCELLED and (session := self._sessions.get(request.headers.get(SESSION, ""))):
            task = session.running.get(jsonrpc.id_key(jsonrpc.encode(params.get("requestId"))))
            if task:
                task.cancel()
        return web.Response(status=202)


def _check_headers(request: web.Request, method: str, params: dict[str, Any], named: object) -> None:
    """Raise RpcError unless the headers say what the body does: whoever forwards the request decides by them."""
    if named is None:
        raise RpcError.invalid_params(f"The request has no _meta with {protocol.VERSION_KEY}.")
    expected = {VERSION: named, "Mcp-Method": method}
    if method == protocol.CALL_TOOL:
        expected["Mcp-Name"] = str(params.get("name"))
    for header, value in expected.items():
        if request.headers.get(header) != value:
            raise RpcError(HEADER_MISMATCH, f"The header {header} does not match the body.")
    if named not in protocol.MODERN_VERSIONS:
        raise unsupported(named)


def _json(line: bytes, status: int, headers: Mapping[str, str] = {}) -> web.Response:
    return web.Response(body=line.strip(), status=status, content_type="application/json", headers=headers)
