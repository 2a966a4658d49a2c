"""HTTP to model APIs and MCP servers. The HTTP client is imported on the first request."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakKeyDictionary

import msgspec

from outrider.errors import IncompleteStreamError, ProviderError, UnavailableError
from outrider.providers.transport.addresses import is_local_name, literal_address, public_socket, why_private
from outrider.providers.transport.network import CA_VARIABLES, environment_proxies, proxy_for, shown_host

if TYPE_CHECKING:
    from outrider.providers.transport.client import Exchange
    from outrider.providers.transport.connection import Incoming

MAX_RESPONSE_BYTES = 96 * 1024 * 1024  # no reply is larger than this
DRAIN_TIMEOUT = 0.2  # seconds that a server may take to end its response after the reply in it has ended
MAX_ERROR_BYTES = 64 * 1024
REFUSED_SECONDS = 10.0  # seconds of retries when no server listens at an address
SLICE = 256 * 1024  # bytes that are passed to the network at once


class Pieces:
    """A body in pieces that are not joined. It can be sent any number of times."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = tuple(pieces)
        self._size = sum(map(len, self._pieces))

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return b"".join(self._pieces)

    def slices(self) -> Iterator[memoryview]:
        """Yield the bytes in order, in small slices and without copying them."""
        for piece in self._pieces:
            view = memoryview(piece)
            for start in range(0, len(piece), SLICE):
                yield view[start : start + SLICE]


Body: TypeAlias = bytes | Pieces
_HOST = re.compile(r"[^:]*(?::\d*)?|\[[^\]]*\](?::\d*)?")
"""A host with or without a port."""


class Timeouts(msgspec.Struct, frozen=True):
    connect: float = 15.0
    read: float = 300.0
    """For the next bytes. Models may think for minutes before the first ones."""
    total: float = 3600.0  # for the whole response, so that an endless stream ends


class ErrorResponse(msgspec.Struct, frozen=True):
    """A response that is not a reply: an error status, or a web page."""

    status: int
    headers: Mapping[str, str]  # the names are in lower case
    body: bytes


Explain: TypeAlias = Callable[[ErrorResponse], ProviderError]  # makes an exception from an error response


class Response:
    """A response of any status. Its body is read as it arrives. Reading raises ProviderError."""

    def __init__(self, incoming: Incoming, url: str) -> None:
        self._incoming = incoming
        self._url = url
        self.status = incoming.status
        self.headers: Mapping[str, str] = _joined(incoming)
        """The names are in lower case; headers that came several times are joined with commas."""

    @property
    def content_type(self) -> str:
        """The media type in lower case, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def chunks(self) -> AsyncIterator[bytes]:
        from outrider.providers.transport.connection import HttpError

        try:
            while chunk := await self._incoming.read():
                yield chunk
        except (HttpError, OSError, ValueError) as error:
            raise _to_error(error, self._url, started=True) from None

    async def read(self, limit: int) -> bytes:
        pieces: list[bytes] = []
        total = 0
        async for chunk in self.chunks():
            pieces.append(chunk)
            total += len(chunk)
            if total >= limit:
                break
        return b"".join(pieces)[:limit]


class Transport:
    """Sends requests and streams the bytes of the responses. Connections are reused."""

    def __init__(self, timeouts: Timeouts | None = None, *, public_only: bool = False) -> None:
        """`public_only`: refuse to connect to private addresses, for URLs that come from a server."""
        self._timeouts = timeouts or Timeouts()
        self._public_only = public_only
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, _Client] = WeakKeyDictionary()

    async def post(
        self, url: str, headers: Mapping[str, str], body: Body, explain: Explain, idle_seconds: float = math.inf
    ) -> AsyncIterator[bytes]:
        """Yield the bytes of a response. Raise ProviderError, also after `idle_seconds` without new bytes."""
        client = await self._client()
        from outrider.providers.transport.connection import HttpError

        total, deadline = 0, client.time() + self._timeouts.total
        try:
            async with client.request("POST", url, headers, body, idle_seconds) as response:
                if not _is_good(response):
                    raise explain(await _error_response(response))
                try:
                    while chunk := await response.read():
                        total += len(chunk)
                        if total > MAX_RESPONSE_BYTES:
                            raise ProviderError(f"the response of {shown_host(url)} is too large for a reply")
                        if client.time() > deadline:  # as long again would not help
                            raise UnavailableError(f"{shown_host(url)} took too long to respond: the stream has no end")
                        yield chunk
                except GeneratorExit:  # the caller has the whole reply
                    await _drain(response)
                    raise
        except (HttpError, OSError, ValueError) as error:
            raise _to_error(error, url, started=total > 0) from None

    async def get(self, url: str, headers: Mapping[str, str], explain: Explain) -> bytes:
        async with self.open("GET", url, headers) as found:
            if not _is_good(found._incoming):
                raise explain(await _error_response(found._incoming))
            return await found.read(MAX_RESPONSE_BYTES)

    @contextlib.asynccontextmanager
    async def open(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> AsyncIterator[Response]:
        """Send a request and give its response, whatever its status and size. Raises ProviderError."""
        client = await self._client()
        from outrider.providers.transport.connection import HttpError

        try:
            async with client.request(method, url, headers, body) as response:
                yield Response(response, url)
                await _drain(response)
        except (HttpError, OSError, ValueError) as error:
            raise _to_error(error, url) from None

    async def close(self) -> None:
        """Close the connections of the running event loop. A later request opens new ones."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client:
            await client.http.close()

    async def _client(self) -> _Client:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            for closed in [each for each in self._clients if each.is_closed()]:
                del self._clients[closed]
            client = _Client(self._timeouts, self._public_only)
            await client.http.open()  # does not suspend, so no second client is created meanwhile
            self._clients[loop] = client
        return client


class _Client:
    """The HTTP client of one event loop. It closes with the loop."""

    def __init__(self, timeouts: Timeouts, public_only: bool) -> None:
        from outrider.providers.transport.client import Client

        self._timeouts = timeouts
        self._public_only = public_only
        self._proxies = environment_proxies()
        self.http = Client(timeouts.connect, make_socket=public_socket if public_only else None)
        self.time = asyncio.get_running_loop().time

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: Body | None = None,
        idle_seconds: float = math.inf,
    ) -> Exchange:
        proxy = proxy_for(url, self._proxies)
        if self._public_only:
            _refuse_private(url, is_proxied=proxy is not None)
        # Pieces are sent as fast as the network takes them, and not copied as a whole.
        pieces, length = (body.slices(), len(body)) if isinstance(body, Pieces) else (body or b"", None)
        seconds = min(idle_seconds, self._timeouts.read)
        return self.http.request(method, url, headers, pieces, length, read_seconds=seconds, proxy=proxy)


def retry_delay(headers: Mapping[str, str], now: Callable[[], float]) -> float | None:
    """Return the seconds that a server asks to wait, from its headers. `now` is the wall clock."""
    for name, factor in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if value := headers.get(name):
            with contextlib.suppress(ValueError):
                return max(0.0, float(value) * factor)
            from email.utils import parsedate_to_datetime  # slow to import, and few servers send dates

            with contextlib.suppress(ValueError):
                return max(0.0, parsedate_to_datetime(value).timestamp() - now())
    return None


def _is_good(response: Incoming) -> bool:
    return response.status == 200 and "html" not in response.header("content-type").lower()


def _joined(response: Incoming) -> Mapping[str, str]:
    joined: dict[str, str] = {}
    for name, value in response.headers:
        name = name.lower()
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined


async def _drain(response: Incoming) -> None:
    """Read the rest of a response for a moment: only a response that was read to its end frees its connection."""
    from outrider.providers.transport.connection import HttpError

    if response.is_complete:
        return
    with contextlib.suppress(TimeoutError, HttpError, OSError):
        async with asyncio.timeout(DRAIN_TIMEOUT):
            while not response.is_complete:
                await response.skip()


async def _error_response(response: Incoming) -> ErrorResponse:
    from outrider.providers.transport.connection import HttpError

    body = bytearray()
    with contextlib.suppress(HttpError, OSError):  # the status says more than how its text ended
        while len(body) < MAX_ERROR_BYTES and (chunk := await response.read()):
            body += chunk
    return ErrorResponse(response.status, _joined(response), bytes(body[:MAX_ERROR_BYTES]))


def _refuse_private(url: str, *, is_proxied: bool) -> None:
    """Refuse private addresses that the URL shows. The sockets refuse those that names resolve to."""
    from outrider.providers.transport.client import address_of

    host = address_of(url).host  # as it is asked for: `１２７.1` is 127.1
    address = literal_address(host)
    why = why_private(address) if address else "a local name" if is_proxied and is_local_name(host) else ""
    if why:
        raise ProviderError(f"{shown_host(url)} is not a public address ({why})")


def _to_error(error: Exception, url: str, started: bool = False) -> ProviderError:
    """Return the error for a failure of the HTTP client, without headers and without passwords in URLs."""
    from outrider.providers.transport.client import ProxyError, UrlError, reason_of
    from outrider.providers.transport.connection import HttpError

    host, reason = shown_host(url), reason_of(error)
    match error:
        case UrlError():
            if "@" in url and not _HOST.fullmatch(host):  # the beginning of a password may look like a port
                host = re.split(r"[/?#]", url.rpartition("@")[2])[0]
            return ProviderError(f"{host!r} is not a usable URL; check the base URL and the proxies")
        case TimeoutError():
            kind = IncompleteStreamError if started else UnavailableError
            return kind(f"{host} took too long to respond", retryable=True)
        case ssl.SSLCertVerificationError():
            return UnavailableError(
                f"the certificate of {host} is not trusted: {reason}; {CA_VARIABLES[0]} can name its issuer"
            )
        case ProxyError():
            return UnavailableError(
                f"{host} cannot be reached through the proxy: {reason}; check the proxy", retryable=True
            )
        case HttpError() | OSError():
            if started:
                return IncompleteStreamError(f"the response of {host} was cut off: {reason}", retryable=True)
            # Nothing listens at an address that refuses: a server that restarts is back in seconds.
            patience = REFUSED_SECONDS if isinstance(error, ConnectionRefusedError) else None
            sentence = f"{host} cannot be reached: {reason}; check the address and the network"
            return UnavailableError(sentence, retryable=True, retry_seconds=patience)
    return ProviderError(f"the request to {host} cannot be sent: {reason}")
