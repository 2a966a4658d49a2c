"""The address of an MCP server: sends HTTP requests with the right headers, and follows redirects and challenges."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

import msgspec

from outrider.errors import McpClosedError, McpError, McpLoginError
from outrider.jsonrpc import LineSplitter
from outrider.mcp.channel import Authorization, ServerListener
from outrider.mcp.exchange import Exchange, PendingRequest
from outrider.mcp.server_limits import Bounds
from outrider.mcp.servers import HttpServer, secrets_of
from outrider.providers.transport.http import Response, Timeouts, Transport
from outrider.text.visible import one_line
from outrider.version import __version__

_LONGEST_RETRY = 60.0
_LONGEST_ID = 1_000


class Event(msgspec.Struct, frozen=True):
    data: bytes
    name: str = "message"


class EventReader:
    """Parses events, however the bytes are split. Nothing over the limit is kept."""

    def __init__(self, limit: int) -> None:
        self.last_id = ""  # the id of the last event that has one: the stream can be resumed after it
        self.retry: float | None = None  # the seconds that the server asks to wait before the stream is resumed
        self.has_skipped = False  # whether an event was over the limit
        self._limit = limit
        self._lines = LineSplitter(limit)
        self._data: list[bytes] = []
        self._bytes = 0
        self._name = "message"

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Yield the events that the chunk completes. Events without data, and those over the limit, are skipped."""
        for line in self._lines.split(chunk):
            if line is None:
                self._bytes = self._limit + 1
            elif line := line.removesuffix(b"\r"):
                self._take(line)
            else:
                event = Event(b"\n".join(self._data), self._name)
                is_usable = event.data and not self.is_too_long
                self.has_skipped = self.has_skipped or self.is_too_long
                self._data, self._bytes, self._name = [], 0, "message"
                if is_usable:
                    yield event

    @property
    def is_too_long(self) -> bool:
        return self._bytes > self._limit

    def _take(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match field:
            case b"data":
                self._bytes += len(value) + 1
                if self._bytes <= self._limit:
                    self._data.append(value)
            case b"event":
                self._name = value[:100].decode("utf-8", "replace")
            case b"id" if len(value) <= _LONGEST_ID and value.isascii() and value.decode().isprintable():
                self.last_id = value.decode()
            case b"retry" if value.isdigit() and len(value) < 10:
                self.retry = min(int(value) / 1000, _LONGEST_RETRY)


EVENTS = "text/event-stream"
_SENT = {
    "content-type": "application/json",
    "accept": f"application/json, {EVENTS}",
    "user-agent": f"outrider/{__version__}",
}
_SHOWN = 300
_PASSING = (429, 502, 503, 504)  # statuses of a server, or of a gateway before it, that is away for a while
_MOST_REPEATS = 5  # how often one message is sent again: after redirects, and after the authorization has changed


class BackgroundTasks:
    """The tasks of a channel over HTTP: requests, and messages that are sent in the background."""

    def __init__(self, most_answers: int) -> None:
        self._most_answers = most_answers
        self._tasks: set[asyncio.Task[None]] = set()
        self._answers: set[asyncio.Task[None]] = set()
        """The messages that are sent in the background: some of the tasks."""

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def start_answer(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start to send a message, unless too many are on their way."""
        if len(self._answers) < self._most_answers:
            task = self.start(work())
            self._answers.add(task)
            task.add_done_callback(self._answers.discard)

    def cancel(self) -> None:
        """Cancel all tasks but the one that calls this."""
        for task in self._tasks - {asyncio.current_task()}:
            task.cancel()

    async def close(self) -> None:
        self.cancel()
        await asyncio.gather(*tuple(self._tasks), return_exceptions=True)


class Endpoint:
    """The address of one server, with the headers of its description and its authorization."""

    def __init__(self, server: HttpServer, authorization: Authorization | None) -> None:
        self._server = server
        self._authorization = authorization
        self._url = server.url
        # The exchange limits the time of each request; streams may be silent for hours.
        self._transport = Transport(Timeouts(read=math.inf, total=math.inf))
        self._challenging = asyncio.Lock()
        self._secrets = secrets_of(server)

    def check(self) -> None:
        """Check the description. Raises McpError, without the values of headers."""
        for name, value in self._server.headers.items():
            if not (name.isascii() and name.replace("-", "").replace("_", "").isalnum() and value.isprintable()):
                raise McpError(
                    f"The header {one_line(name, 40)!r} of the MCP server {self._server.name} "
                    "has characters that a header cannot have. Correct it."
                )

    @contextlib.asynccontextmanager
    async def send(
        self, verb: str, body: bytes | None, headers: Mapping[str, str], pending: PendingRequest | None = None
    ) -> AsyncIterator[Response]:
        """Send a request and give its response, after redirects and challenges. Raises ProviderError, McpError.

        The time of a pending request does not run while a person logs in.
        """
        for repeats in range(_MOST_REPEATS + 1):
            sent = await self._headers(headers)
            async with self._transport.open(verb, self._url, sent, body) as response:
                if repeats == _MOST_REPEATS or not await self._may_repeat(response, sent, pending):
                    yield response
                    return

    def status_error(self, response: Response, body: bytes) -> McpError:
        name, status = self._server.name, response.status
        if status in (401, 403):
            return McpLoginError(
                f"The MCP server {name} refused access (status {status}). "
                f"Log in with `outrider mcp login {name}`, or give it a header with a valid key."
            )
        if 300 <= status < 400:
            target = self.shown(response.headers.get("location", ""), 200)
            return McpError(
                f"The MCP server {name} redirects to {target or 'nowhere'}, which is not followed. "
                "If you trust that address, configure it."
            )
        said = self.shown(body.decode("utf-8", "replace"))
        told = f"The MCP server {name} answered with status {status}." + (f" It said: {said}" if said else "")
        return McpError(told, is_passing=status in _PASSING)

    def shown(self, text: str, limit: int = _SHOWN) -> str:
        """Return text of the server for an error: on one line, without keys and tokens."""
        for secret in self._secrets:
            text = text.replace(secret, "…")
        return one_line(text, limit)

    async def close(self) -> None:
        await self._transport.close()

    async def _headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        sent = {name.lower(): value for name, value in self._server.headers.items()}
        if self._authorization:
            given = await self._authorization.headers()
            tokens = [part for value in given.values() for part in value.split() if len(part) >= 6]
            self._secrets = [*secrets_of(self._server), *tokens]
            sent.update({name.lower(): value for name, value in given.items()})
        return {**sent, **_SENT, **headers}

    async def _may_repeat(self, response: Response, sent: Mapping[str, str], pending: PendingRequest | None) -> bool:
        """Return whether to send the request again: to another address, or with another token."""
        if response.status in (307, 308):
            target = redirect_target(self._url, response.headers.get("location", ""))
            self._url = target or self._url
            return target is not None
        if response.status not in (401, 403) or self._authorization is None:
            return False
        if pending:
            pending.on_hold = True
        try:
            async with self._challenging:
                now = await self._authorization.headers()
                if any(sent.get(name.lower()) != value for name, value in now.items()):
                    return True  # another request has got a new token meanwhile
                challenge = response.headers.get("www-authenticate")
                return await self._authorization.challenged(response.status, challenge)
        finally:
            if pending:
                pending.on_hold = False


class EndpointChannel:
    """What the channels to an address share. `bounds` limit what the server may send."""

    def __init__(
        self,
        server: HttpServer,
        listener: ServerListener,
        *,
        authorization: Authorization | None = None,
        bounds: Bounds,
    ) -> None:
        self.protocol_version = ""
        self._server = server
        self._listener = listener
        self._authorization = authorization
        self._endpoint = Endpoint(server, authorization)
        self._bounds = bounds
        self._exchange = Exchange(server.name, listener, bounds)
        self._tasks = BackgroundTasks(bounds.answers)
        self._is_closed = False

    def _check_open(self) -> None:
        if self._is_closed:
            raise McpClosedError(f"The connection to the MCP server {self._server.name} is closed.", sent=False)


def redirect_target(url: str, location: str) -> str | None:
    """Return the address to which a request is sent again, or None if it must not be.

    Tokens and arguments may not go to another host, nor from https to http.

    >>> redirect_target("http://example.org/mcp", "/mcp/")
    'http://example.org/mcp/'
    >>> redirect_target("https://example.org/mcp", "https://example.com/mcp")
    """
    try:
        target = urljoin(url, location)
        here, there = urlsplit(url), urlsplit(target)
        is_same = (here.scheme, here.hostname, here.port) == (there.scheme, there.hostname, there.port)
        is_upgrade = (here.scheme, there.scheme) == ("http", "https") and here.hostname == there.hostname
    except ValueError:
        return None
    has_password = there.username is not None or there.password is not None
    is_usable = bool(location) and target.isprintable() and not has_password
    return target if is_usable and target != url and (is_same or (is_upgrade and here.port == there.port)) else None
