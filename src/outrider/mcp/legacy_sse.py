"""A channel to a server of 2024-11-05 over HTTP: one stream of events (GET), whose first event says where to POST.

Later versions replaced this transport. It is used only for servers that refuse the newer one.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import msgspec

from outrider import jsonrpc
from outrider.errors import McpClosedError, McpError, McpTimeoutError, ProviderError
from outrider.mcp.channel import Headers, OnProgress, Params
from outrider.mcp.endpoint import EVENTS, Endpoint, EndpointChannel, EventReader, redirect_target
from outrider.mcp.exchange import PendingRequest
from outrider.providers.transport.http import Response

_ERROR_BYTES = 64 * 1024


class LegacySseChannel(EndpointChannel):
    """A channel whose answers come on one stream. It ends with the stream."""

    _messages: Endpoint | None = None  # where messages go; `_endpoint` has the stream

    async def open(self) -> None:
        """Open the stream, and wait until it says where messages go. Raises McpError."""
        self._endpoint.check()
        opened: asyncio.Future[Endpoint] = asyncio.get_running_loop().create_future()
        self._tasks.start(self._listen(opened))
        try:
            async with asyncio.timeout(self._server.startup_timeout):
                self._messages = await opened
        except TimeoutError:
            raise McpTimeoutError(f"The MCP server {self._server.name} did not say where to send messages.") from None

    async def request(
        self,
        method: str,
        params: Params,
        timeout: float | None,
        on_progress: OnProgress = None,
        headers: Headers = None,
    ) -> msgspec.Raw:
        self._check_open()
        pending = self._exchange.begin(method, params, timeout, on_progress)
        self._tasks.start(self._deliver(pending))
        return await self._exchange.wait(pending, self._send_later)

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        if not self._is_closed:
            await self._post(jsonrpc.notification(method, params))

    async def close(self) -> None:
        self._is_closed = True
        self._exchange.close(McpClosedError(f"The connection to the MCP server {self._server.name} was closed."))
        await self._tasks.close()
        for endpoint in filter(None, (self._endpoint, self._messages)):
            await endpoint.close()

    def _send_later(self, line: bytes) -> None:
        if not self._is_closed:
            self._tasks.start_answer(lambda: self._post(line))

    async def _post(self, line: bytes) -> None:
        assert self._messages is not None
        with contextlib.suppress(McpError, ProviderError):
            async with self._messages.send("POST", line, {}):
                return

    async def _deliver(self, pending: PendingRequest) -> None:
        """Send a request. Its answer comes on the stream; only a refusal is in the response."""
        assert self._messages is not None
        try:
            async with self._messages.send("POST", pending.line, {}, pending) as response:
                if response.status >= 300:
                    raise self._messages.status_error(response, await response.read(_ERROR_BYTES))
        except McpError as error:
            pending.fail(error)
        except ProviderError as error:
            pending.fail(self._failed(error))

    async def _listen(self, opened: asyncio.Future[Endpoint]) -> None:
        """Read the stream to its end, which ends the channel."""
        reason: McpError = McpClosedError(f"The MCP server {self._server.name} ended its stream.")
        try:
            async with self._endpoint.send("GET", None, {"accept": EVENTS}) as response:
                await self._read(response, opened)
        except McpError as error:
            reason = error
        except ProviderError as error:
            reason = self._failed(error)
        if not opened.done():
            opened.set_exception(reason)
        elif not self._is_closed:
            self._is_closed = True
            self._exchange.close(McpClosedError(str(reason)))
            self._listener.closed(reason)

    async def _read(self, response: Response, opened: asyncio.Future[Endpoint]) -> None:
        """Read the events. The first one of the name `endpoint` opens the channel."""
        if response.status >= 300:
            raise self._endpoint.status_error(response, await response.read(_ERROR_BYTES))
        if response.content_type != EVENTS:
            raise McpError(f"The MCP server {self._server.name} has no stream of events.")
        reader = EventReader(self._bounds.message_bytes)
        async for chunk in response.chunks():
            for event in reader.feed(chunk):
                if event.name == "endpoint" and not opened.done():
                    opened.set_result(self._message_endpoint(event.data.decode("utf-8", "replace").strip()))
                elif event.name == "message":
                    self._exchange.receive(event.data, self._send_later)
            if reader.is_too_long or reader.has_skipped:  # the answer to some request is lost
                raise self._exchange.too_large()

    def _message_endpoint(self, location: str) -> Endpoint:
        """Return where messages go. Tokens and arguments may not go to another host."""
        target = redirect_target(self._server.url, location)
        if target is None:
            shown = self._endpoint.shown(location, 200)
            raise McpError(f"The MCP server {self._server.name} wants messages at {shown or 'nowhere'}. Not followed.")
        return Endpoint(msgspec.structs.replace(self._server, url=target), self._authorization)

    def _failed(self, error: ProviderError) -> McpError:
        return McpError(f"The MCP server {self._server.name} failed: {self._endpoint.shown(str(error))}.")
