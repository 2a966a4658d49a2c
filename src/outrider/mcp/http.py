"""A channel to a server at an address: streamable HTTP of both eras.

Each message is a POST; its response is JSON or a stream of events. Up to 2025-11-25 the server may give the connection
a session, send messages on a stream of its own (GET), and let an interrupted stream be resumed. Since 2026-07-28 there
is none of that: every request stands alone, and closing its stream cancels it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from outrider import jsonrpc
from outrider.errors import McpClosedError, McpError, McpTimeoutError, ProviderError
from outrider.mcp import protocol
from outrider.mcp.channel import Headers, OnProgress, Params, ServerListener
from outrider.mcp.endpoint import EVENTS, EndpointChannel, EventReader
from outrider.mcp.exchange import PendingRequest, result_of
from outrider.mcp.handshake import decoded
from outrider.mcp.parameter_headers import standard_headers
from outrider.mcp.servers import HttpServer
from outrider.providers.transport.http import Response
from outrider.text.visible import one_line

_ERROR_BYTES = 64 * 1024
_NOT_STREAMABLE = (400, 404, 405, 406, 415)
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 300.0
_CLOSE_SECONDS = 2.0
_RENEW_SECONDS = 60.0


class HttpChannel(EndpointChannel):
    """A channel to a server at an address. It has no connection of its own: a server that is back is reached again."""

    def __init__(self, server: HttpServer, listener: ServerListener, **settings: Any) -> None:
        super().__init__(server, listener, **settings)
        self.is_refused = False
        """Whether the address takes no messages at all, as one of the older transport of 2024-11-05."""
        self._session = ""
        self._greeting: dict[str, Any] = {}
        """The parameters of `initialize`, to begin a new session after the server has lost this one."""
        self._renewing = asyncio.Lock()
        self._listening: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Check the description: the first request connects. Raises McpError."""
        self._endpoint.check()

    async def request(
        self,
        method: str,
        params: Params,
        timeout: float | None,
        on_progress: OnProgress = None,
        headers: Headers = None,
    ) -> msgspec.Raw:
        self._check_open()
        if method == protocol.INITIALIZE:
            self._greeting = params
        pending = self._exchange.begin(method, params, timeout, on_progress)
        task = self._tasks.start(self._deliver(pending, {**self._headers_of(method, params), **(headers or {})}))
        try:
            return await self._exchange.wait(pending, self._drop if self._is_stateless else self._send_later)
        except (asyncio.CancelledError, McpTimeoutError, McpClosedError):
            task.cancel()
            raise

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        if self._is_closed:
            return
        await self._post_message(jsonrpc.notification(method, params), self._headers_of(method, params))
        if method == protocol.INITIALIZED and not self._is_stateless:
            if self._listening:
                self._listening.cancel()
            self._listening = self._tasks.start(self._listen())

    async def close(self) -> None:
        was_closed, self._is_closed = self._is_closed, True
        self._exchange.close(McpClosedError(f"The connection to the MCP server {self._server.name} was closed."))
        await self._tasks.close()
        if self._session and not was_closed:
            with contextlib.suppress(McpError, ProviderError, TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS), self._send("DELETE", None, {}):
                    self._session = ""
        await self._endpoint.close()

    @property
    def _is_stateless(self) -> bool:
        return self.protocol_version in protocol.MODERN_VERSIONS

    def _headers_of(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        return standard_headers(method, params) if self._is_stateless else {}

    def _send_later(self, line: bytes) -> None:
        """Send a message in the background: an answer to a server's request, or a notification."""
        self._check_open()
        self._tasks.start_answer(lambda: self._post_message(line, {}))

    def _drop(self, line: bytes) -> None:
        """Send nothing: since 2026-07-28 closing the stream of a request cancels it, and there is nothing to answer."""

    async def _post_message(self, line: bytes, headers: Mapping[str, str]) -> None:
        with contextlib.suppress(McpError, ProviderError):
            async with self._send("POST", line, headers):
                return  # 202, or an error that no one waits for

    async def _deliver(self, pending: PendingRequest, headers: Mapping[str, str]) -> None:
        """Send a request, read what the server answers, and see that the request ends."""
        try:
            for is_last in (False, True):
                if self._renewing.locked() and pending.method != protocol.INITIALIZE:
                    async with self._renewing:
                        pass
                session = self._session
                try:
                    return await self._exchange_once(pending, headers, session)
                except _SessionLostError:
                    if is_last or pending.method == protocol.INITIALIZE:
                        raise
                    await self._renew(session)
        except _SessionLostError as error:
            self._lose(error)
        except McpError as error:
            pending.fail(error)
        except ProviderError as error:
            pending.fail(self._transport_error(error, pending))

    async def _exchange_once(self, pending: PendingRequest, headers: Mapping[str, str], session: str) -> None:
        reader = EventReader(self._bounds.message_bytes)
        async with self._send("POST", pending.line, headers, pending) as response:
            if pending.method == protocol.INITIALIZE:
                session_id = response.headers.get("mcp-session-id", "")
                is_usable = session_id.isascii() and session_id.isprintable() and len(session_id) <= 1_000
                self._session = session_id if is_usable else ""
            if response.status >= 300:
                raise await self._refusal(response, pending, session)
            if response.content_type == EVENTS:
                await self._read_events(response, reader, pending)
            elif response.content_type == "application/json":
                self._take(await self._read_whole(response))
            elif not pending.future.done():
                kind = one_line(response.content_type, 60) or "nothing"
                raise McpError(f"The MCP server {self._server.name} answered {pending.method} with {kind}, not JSON.")
        if not pending.future.done():
            await self._resume(pending, reader)

    async def _read_whole(self, response: Response) -> bytes:
        limit = self._bounds.message_bytes
        body = await response.read(limit + 1)
        if len(body) > limit:
            raise self._exchange.too_large()
        return body

    async def _read_events(self, response: Response, reader: EventReader, pending: PendingRequest | None) -> None:
        """Read events until the request has its answer, or to the end of the stream."""
        with contextlib.suppress(ProviderError):  # an interrupted stream is resumed as one that ended
            async for chunk in response.chunks():
                for event in reader.feed(chunk):
                    if event.name == "message":
                        self._take(event.data)
                if reader.is_too_long:
                    raise self._exchange.too_large()
                if pending and pending.future.done():
                    return

    async def _resume(self, pending: PendingRequest, reader: EventReader) -> None:
        """Read the rest of a stream that ended before the answer, as often as the server ends it."""
        pause = _FIRST_PAUSE
        while reader.last_id and not self._is_stateless and not pending.future.done():
            last_id = reader.last_id
            await asyncio.sleep(pause if reader.retry is None else reader.retry)
            async with self._send("GET", None, {"accept": EVENTS, "last-event-id": last_id}) as response:
                if response.status != 200 or response.content_type != EVENTS:
                    break
                await self._read_events(response, reader, pending)
            pause = _FIRST_PAUSE if reader.last_id != last_id else min(pause * 2, _LONGEST_PAUSE)
            if reader.last_id == last_id and reader.retry is not None:
                reader.retry = max(reader.retry, pause)
        if not pending.future.done():
            raise McpError(
                f"The MCP server {self._server.name} ended its response before it answered {pending.method}.",
                is_passing=True,
            )

    def _take(self, line: bytes) -> None:
        try:
            self._exchange.receive(line, self._drop if self._is_stateless else self._send_later)
        except McpError as error:  # the server floods
            self._lose(error)
            raise

    def _lose(self, reason: McpError) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._exchange.close(McpClosedError(str(reason)))
            self._tasks.cancel()
            self._listener.closed(reason)

    async def _refusal(self, response: Response, pending: PendingRequest, session: str) -> McpError:
        """Return the error for an error status: the JSON-RPC error in the body, if there is one."""
        body = await response.read(_ERROR_BYTES)
        error = self._error_in(body, pending)
        # 404 is the protocol's; several servers answer 400 and say that the session is unknown.
        is_unknown = response.status == 400 and error is not None and "session" in str(error).lower()
        if session and not self._is_stateless and (response.status == 404 or is_unknown):
            return _SessionLostError(f"The MCP server {self._server.name} has lost the session.")
        self.is_refused = error is None and pending.method == protocol.INITIALIZE and response.status in _NOT_STREAMABLE
        return error or self._endpoint.status_error(response, body)

    def _error_in(self, body: bytes, pending: PendingRequest) -> McpError | None:
        """Return the JSON-RPC error in a body. Servers that could not read the request leave out its id."""
        try:
            message = jsonrpc.parse(body)
            if message.error and message.is_response:
                result_of(message, pending.method, self._server.name)
        except McpError as error:
            return McpError(self._endpoint.shown(str(error), 2_000), code=error.code, data=error.data)
        except jsonrpc.RpcError:
            return None
        return None

    def _transport_error(self, error: ProviderError, pending: PendingRequest) -> McpError:
        # A server that cannot be reached need not be asked a second time in the other era.
        told = f"The MCP server {self._server.name} failed: {self._endpoint.shown(str(error))}."
        if pending.method in (protocol.DISCOVER, protocol.INITIALIZE):
            return McpClosedError(told)
        return McpError(told, is_passing=True)

    def _send(
        self, verb: str, body: bytes | None, headers: Mapping[str, str], pending: PendingRequest | None = None
    ) -> AbstractAsyncContextManager[Response]:
        """Send a request. All but `initialize` name the version and the session."""
        if pending is None or pending.method != protocol.INITIALIZE:
            version = {"mcp-protocol-version": self.protocol_version} if self.protocol_version else {}
            session = {"mcp-session-id": self._session} if self._session and not self._is_stateless else {}
            headers = {**version, **session, **headers}
        return self._endpoint.send(verb, body, headers, pending)

    # Sessions, until 2025-11-25

    async def _renew(self, session: str) -> None:
        """Begin a new session, once for all requests that found the old one lost."""
        async with self._renewing:
            if self._session != session:
                return
            self._session = ""
            raw = await self.request(protocol.INITIALIZE, self._greeting, timeout=_RENEW_SECONDS)
            version = decoded(raw, protocol.InitializeResult, self._server.name, protocol.INITIALIZE).protocol_version
            if version in protocol.HANDSHAKE_VERSIONS:
                self.protocol_version = version
            await self.notify(protocol.INITIALIZED, {})
        for change in protocol.CHANGES:  # the server may be another one now
            self._listener.notified(change, msgspec.Raw(b"{}"))

    async def _listen(self) -> None:
        """Read the messages that belong to no request, until the channel closes or the server offers no stream."""
        pause = _FIRST_PAUSE
        reader = EventReader(self._bounds.message_bytes)
        while not self._is_closed:
            headers = {"accept": EVENTS, **({"last-event-id": reader.last_id} if reader.last_id else {})}
            last_id = reader.last_id
            with contextlib.suppress(McpError, ProviderError):
                async with self._send("GET", None, headers) as response:
                    if 300 <= response.status < 500 or (response.status < 300 and response.content_type != EVENTS):
                        return
                    await self._read_events(response, reader, None)
            pause = _FIRST_PAUSE if reader.last_id != last_id else min(pause * 2, _LONGEST_PAUSE)
            await asyncio.sleep(max(pause, reader.retry or 0))


class _SessionLostError(McpClosedError):
    """The server does not know the session any more."""
