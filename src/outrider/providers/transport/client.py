"""An HTTP client: connections that are opened, through proxies and with TLS, used again, and closed."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from types import TracebackType
from typing import Any, NamedTuple, Protocol, TypeAlias
from urllib.parse import quote, unquote, urlsplit

import aiohappyeyeballs

from outrider.providers.transport.connection import Connection, HttpError, Incoming, NoAnswerError
from outrider.providers.transport.network import tls_context
from outrider.version import __version__

KEEP_ALIVE = 15.0
"""Seconds that an idle connection is kept."""
NEXT_ADDRESS = 0.25
"""Seconds after which the next address of a host is tried beside the first one."""
DEFAULT_HEADERS = {"accept": "*/*", "accept-encoding": "gzip, deflate", "user-agent": f"outrider/{__version__}"}

AddressInfo: TypeAlias = tuple[int, int, int, str, tuple[Any, ...]]
Lookup: TypeAlias = Callable[[str, int], Awaitable[Sequence[AddressInfo]]]
"""Returns the addresses of a host, given its name and the port, as socket.getaddrinfo does. Raises OSError."""
MakeSocket: TypeAlias = Callable[[AddressInfo], socket.socket]


class Connect(Protocol):
    """Returns a connection, a new one if that is asked for."""

    def __call__(self, *, is_new: bool) -> Awaitable[Connection]: ...


class UrlError(ValueError):
    """A URL that cannot be asked."""


class UnknownHostError(OSError):
    """A host has no address, or its name cannot be looked up now."""


class ProxyError(HttpError):
    """A proxy cannot be reached, or it refuses."""


class Address(NamedTuple):
    """What a URL says."""

    scheme: str
    host: str
    port: int
    authority: str
    """Host and port as the header `Host` has them."""
    target: str
    """Path and query."""
    login: str
    """The value of the header `Authorization`, for a user name and a password in the URL, or ""."""


class Exchange:
    """A request, and its response inside `async with`."""

    def __init__(
        self, connect: Connect, give_back: Callable[[Connection], None], *request: Any, is_repeatable: bool
    ) -> None:
        self._connect, self._give_back, self._request = connect, give_back, request
        self._is_repeatable = is_repeatable
        self._connection: Connection

    async def __aenter__(self) -> Incoming:
        """Send the request. Raise HttpError, OSError or ValueError."""
        self._connection = await self._connect(is_new=False)
        try:
            return await self._send()
        except (NoAnswerError, ConnectionError):
            # The server may have closed a connection that was idle just when it was used again.
            if not self._is_repeatable or not self._connection.idle_since:
                raise
        self._connection = await self._connect(is_new=True)
        return await self._send()

    async def _send(self) -> Incoming:
        try:
            return await self._connection.send(*self._request)
        except BaseException:
            self._connection.abort()
            raise

    async def __aexit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._give_back(self._connection)


class Client:
    """Sends requests and keeps connections for later ones. It belongs to one event loop and closes with it."""

    def __init__(
        self, connect_seconds: float, *, lookup: Lookup | None = None, make_socket: MakeSocket | None = None
    ) -> None:
        self._connect_seconds = connect_seconds
        self._lookup = lookup or _system_lookup
        self._lookups: dict[tuple[str, int], asyncio.Future[Sequence[AddressInfo]]] = {}
        """Lookups that go on."""
        self._make_socket = make_socket
        """For connections to servers. A proxy may be in the private network, and decides itself what it reaches."""
        self._tls: ssl.SSLContext | None = None
        self._pool = _Pool()
        # An event loop closes async generators when it shuts down, and those that are garbage: this closes the pool.
        self._lifetime = _lifetime(self._pool)

    async def open(self) -> Client:
        """Begin the client's life. This does not suspend."""
        await anext(self._lifetime)
        return self

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | Iterable[memoryview] = b"",
        length: int | None = None,
        *,
        read_seconds: float,
        proxy: str | None = None,
    ) -> Exchange:
        """Return an exchange. Raise ValueError.

        `length` is that of a body in pieces, `read_seconds` for the next bytes. Redirects are not followed: they could
        take a key to another host. There are no cookies.
        """
        address, via = address_of(url), address_of(proxy) if proxy else None
        if length is None and (body or method in ("POST", "PUT", "PATCH")):
            length = len(body)  # type: ignore[arg-type]
        is_forwarded = via is not None and address.scheme == "http"
        head = _head(method, address, headers, length, via if is_forwarded else None)
        connect = partial(self._connection, address, via)
        return Exchange(connect, self._give_back, head, body, read_seconds, is_repeatable=method == "GET")

    async def close(self) -> None:
        """Close the connections."""
        await self._lifetime.aclose()

    async def _connection(self, address: Address, via: Address | None, *, is_new: bool) -> Connection:
        route = (address.scheme, address.host, address.port, via)
        if not is_new and (kept := self._pool.take(route)):
            return kept
        try:
            async with asyncio.timeout(self._connect_seconds):
                connection = await (self._through(via, address) if via else self._to(address, self._make_socket))
        except TimeoutError:
            raise TimeoutError("no connection in time") from None
        self._pool.add(connection, route)
        return connection

    async def _to(self, address: Address, make_socket: MakeSocket | None = None) -> Connection:
        """Connect to a server or a proxy."""
        context = self._context() if address.scheme == "https" else None
        found = await self._addresses(address.host, address.port)
        opened = await aiohappyeyeballs.start_connection(
            found, happy_eyeballs_delay=NEXT_ADDRESS, socket_factory=make_socket
        )
        try:
            _, connection = await asyncio.get_running_loop().create_connection(Connection, sock=opened)
        except BaseException:
            opened.close()
            raise
        if context:  # not with the connection: a cancel in its first moment would leave half a transport behind
            await self._secure(connection, context, address.host)
        return connection

    async def _secure(self, connection: Connection, context: ssl.SSLContext, host: str) -> None:
        try:
            await connection.start_tls(context, host.rstrip("."))
        except BaseException:
            connection.abort()
            raise

    async def _addresses(self, host: str, port: int) -> Sequence[AddressInfo]:
        """Look a host up. Requests at the same time share one lookup."""
        key = host, port
        if key not in self._lookups:
            task = self._lookups[key] = asyncio.ensure_future(self._lookup(host, port))
            task.add_done_callback(lambda done: (self._lookups.pop(key), done.cancelled() or done.exception()))
        try:
            found = await asyncio.shield(self._lookups[key])
        except OSError as error:
            raise UnknownHostError(*error.args) from None
        if not found:
            raise UnknownHostError("it has no address")
        return found

    async def _through(self, via: Address, address: Address) -> Connection:
        """Connect to a server through a proxy: it forwards requests without TLS, and connects for those with it."""
        try:
            connection = await self._to(via)
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise
            raise ProxyError(reason_of(error)) from error
        if address.scheme == "http":
            return connection
        host = f"[{address.host}]" if ":" in address.host else address.host
        target = f"{host}:{address.port}"
        try:
            login = {"proxy-authorization": via.login} if via.login else {}
            headers = {"host": target, "user-agent": DEFAULT_HEADERS["user-agent"], **login}
            head = _lines(f"CONNECT {target} HTTP/1.1", headers)
            try:
                answer = await connection.send(head, b"", self._connect_seconds)
            except (HttpError, OSError) as error:
                raise ProxyError(reason_of(error)) from None
            if answer.status >= 300:
                raise ProxyError(f"{answer.status} {answer.reason}".rstrip())
        except BaseException:
            connection.abort()
            raise
        await self._secure(connection, self._context(), address.host)
        return connection

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = tls_context()  # slow, and local servers do not need it
        return self._tls

    def _give_back(self, connection: Connection) -> None:
        if connection.end_response():
            self._pool.give_back(connection)


class _Pool:
    """The connections of a client."""

    def __init__(self) -> None:
        self._routes: dict[Connection, object] = {}
        self._idle: dict[object, list[Connection]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def take(self, route: object) -> Connection | None:
        """Return an idle connection of the route, the newest first."""
        idle = self._idle.get(route)
        while idle:
            connection = idle.pop()
            if connection.is_ready and connection.idle_since + KEEP_ALIVE > asyncio.get_running_loop().time():
                return connection
            connection.abort()
        return None

    def add(self, connection: Connection, route: object) -> None:
        """Remember a new connection, until it is closed. Raise HttpError if the pool was closed meanwhile."""
        if self._is_closed:
            connection.abort()
            raise HttpError("the client was closed")
        self._routes[connection] = route
        connection.lost.add_done_callback(lambda _: self._routes.pop(connection, None))

    def give_back(self, connection: Connection) -> None:
        """Keep a connection for the next request."""
        if self._is_closed:
            connection.abort()
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.setdefault(self._routes[connection], []).append(connection)
        if self._timer is None:
            self._timer = loop.call_later(KEEP_ALIVE, self._sweep)

    def _sweep(self) -> None:
        """Close the connections that were idle for too long."""
        loop = asyncio.get_running_loop()
        for route, idle in list(self._idle.items()):
            old = [each for each in idle if not each.is_ready or each.idle_since + KEEP_ALIVE <= loop.time()]
            for connection in old:
                idle.remove(connection)
                connection.abort()
            if not idle:
                del self._idle[route]
        self._timer = loop.call_later(KEEP_ALIVE, self._sweep) if self._idle else None

    async def close(self) -> None:
        """Close all connections, and wait until they are."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._idle.clear()
        for connection in self._routes:
            connection.abort()
        if self._routes:
            await asyncio.wait([connection.lost for connection in self._routes])  # which cancels none of them


async def _lifetime(pool: _Pool) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        await pool.close()


@lru_cache(maxsize=64)
def address_of(url: str) -> Address:
    """Return what a URL says. Raise UrlError.

    >>> address_of("https://me:secret@api.example/v1/models?all=1")[:5]
    ('https', 'api.example', 443, 'api.example', '/v1/models?all=1')
    """
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme.lower(), parts.hostname or "", parts.port
        if not host.isascii():
            from yarl import URL  # as browsers do it: Python's own codec takes ß for ss

            host = URL(url).raw_host or ""
    except ValueError as error:
        raise UrlError(str(error)) from None
    if scheme not in ("http", "https") or not host or " " in host:
        raise UrlError("it is not an address of a web server")
    usual = 443 if scheme == "https" else 80
    shown = f"[{host}]" if ":" in host else host
    target = quote(parts.path or "/", _KEPT) + (f"?{quote(parts.query, _KEPT)}" if parts.query else "")
    login = ""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        login = f"Basic {base64.b64encode(pair.encode()).decode()}"
    authority = shown if port in (None, usual) else f"{shown}:{port}"
    return Address(scheme, host, usual if port is None else port, authority, target, login)


_KEPT = "!#$%&'()*+,/:;=?@[]~|"
"""Characters that stand in URLs as they are."""


def _head(method: str, address: Address, headers: Mapping[str, str], length: int | None, via: Address | None) -> bytes:
    """Return the request line and the headers."""
    lines = {"host": address.authority, **DEFAULT_HEADERS}
    if address.login:
        lines["authorization"] = address.login
    if via is not None and via.login:
        lines["proxy-authorization"] = via.login
    if length is not None:
        lines["content-length"] = str(length)
    for name, value in headers.items():
        lines[name.lower()] = value
    target = f"http://{address.authority}{address.target}" if via is not None else address.target
    return _lines(f"{method} {target} HTTP/1.1", lines)


def _lines(first: str, headers: Mapping[str, str]) -> bytes:
    text = "\r\n".join([first, *(f"{name}: {value}" for name, value in headers.items()), "\r\n"])
    if text.count("\n") != len(headers) + 2 or text.count("\r") != len(headers) + 2 or "\0" in text:
        raise ValueError("a header has a line break")
    return text.encode()


async def _system_lookup(host: str, port: int) -> Sequence[AddressInfo]:
    try:  # without a thread, for an address that is one already
        numeric = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=numeric)
    except socket.gaierror:
        return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


def reason_of(error: BaseException) -> str:
    """Return what a failed request failed with, in words."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    # Python tuples with the addresses follow.
    if text.startswith(("Connect call failed", "Multiple exceptions")) and isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return text
