"""The seam between the client and a transport: requests out, messages of the server in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

import msgspec


class CallProgress(msgspec.Struct, frozen=True):
    """How far a request has come. Numbers that the server does not tell are None."""

    progress: float | None
    total: float | None = None
    message: str = ""


OnProgress: TypeAlias = Callable[[CallProgress], None] | None
Params: TypeAlias = dict[str, Any]
Headers: TypeAlias = Mapping[str, str] | None


class ServerListener(Protocol):
    """Receives what a server sends on its own. The channel calls it in its event loop."""

    async def answer(self, method: str, params: msgspec.Raw) -> Any:
        """Return the result of a server's request. Raises McpError with a code to refuse it."""

    def notified(self, method: str, params: msgspec.Raw) -> None:
        """Take a notification. Must not raise."""

    def closed(self, reason: Exception) -> None:
        """Learn that the channel ended by itself. Called at most once, and not after `close`. Must not raise."""


class Channel(Protocol):
    """A connection to one server. All methods are called in one event loop."""

    protocol_version: str
    """The version in use, which the client sets. HTTP sends it as a header."""

    async def open(self) -> None:
        """Start the server or connect to it. Raises McpError."""

    async def request(
        self,
        method: str,
        params: Params,
        timeout: float | None,
        on_progress: OnProgress = None,
        headers: Headers = None,
    ) -> msgspec.Raw:
        """Send a request and return its result as JSON.

        Raises McpError with the code of an error response, McpTimeoutError after `timeout` seconds without an answer or
        progress (None waits forever), McpClosedError if the channel ends first. If the caller is cancelled or the time
        is over, the channel tells the server. With `on_progress` the request asks for progress. Only HTTP sends
        `headers`.
        """

    async def notify(self, method: str, params: Params) -> None:
        """Send a notification. Failures are not reported."""

    async def close(self) -> None:
        """End the connection, and the server if the channel started it. Open requests raise McpClosedError."""


class Authorization(Protocol):
    """Authorizes the requests to an HTTP server."""

    async def headers(self) -> Mapping[str, str]:
        """Return the headers for the next request."""

    async def challenged(self, status: int, www_authenticate: str | None) -> bool:
        """Handle status 401 or 403. Return whether to send the request again."""
