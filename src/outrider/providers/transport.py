"""HTTP to model APIs: the one file that knows the HTTP library, which it imports on the first request."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import msgspec

from outrider.errors import IncompleteStreamError, ProviderError, UnavailableError
from outrider.providers.body import Body, Pieces

if TYPE_CHECKING:
    import aiohttp

MAX_ANSWER_BYTES = 96 * 1024 * 1024
"""A reply over this size is not one."""
LONGEST_EPILOGUE = 0.2
"""Seconds that a server may take to end its answer after the reply in it has ended."""
MAX_REFUSAL_BYTES = 64 * 1024
CA_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


class Timeouts(msgspec.Struct, frozen=True):
    """Seconds to wait."""

    connect: float = 15.0
    read: float = 300.0
    """For the next bytes; models may think for minutes before the first."""
    total: float = 3600.0
    """For the whole answer, so that a stream that never ends does."""


class Refusal(msgspec.Struct, frozen=True):
    """An answer that is not the one that was asked for."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


class Transport:
    """Posts requests and gives back the bytes of the answers as they come. Connections are kept and used again."""

    def __init__(self, timeouts: Timeouts | None = None) -> None:
        self._timeouts = timeouts or Timeouts()
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, _Client] = WeakKeyDictionary()

    async def post(
        self, url: str, headers: Mapping[str, str], body: Body, explain: Callable[[Refusal], ProviderError]
    ) -> AsyncIterator[bytes]:
        """The bytes of a good answer. Raises ProviderError; `explain` makes it where the server refused."""
        client = await self._client()
        import aiohttp

        total, latest = 0, client.time() + self._timeouts.total
        try:
            async with client.request("POST", url, headers, body) as response:
                if not _is_good(response):
                    raise explain(await _refusal(response))
                try:
                    while chunk := await response.content.readany():
                        total += len(chunk)
                        if total > MAX_ANSWER_BYTES:
                            raise ProviderError(f"the answer of {_host(url)} is larger than any reply can be")
                        if client.time() > latest:
                            raise TimeoutError
                        yield chunk
                except GeneratorExit:  # whoever reads has enough
                    await _drain(response)
                    raise
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _explained(error, url, begun=total > 0) from None

    async def get(self, url: str, headers: Mapping[str, str], explain: Callable[[Refusal], ProviderError]) -> bytes:
        """A whole answer, for the small questions that a program asks about a server."""
        client = await self._client()
        import aiohttp

        try:
            async with client.request("GET", url, headers) as response:
                if not _is_good(response):
                    raise explain(await _refusal(response))
                return await response.read()
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _explained(error, url) from None

    async def _client(self) -> _Client:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            for ended in [each for each in self._clients if each.is_closed()]:
                del self._clients[ended]
            client = _Client(self._timeouts)
            await client.open()  # waits for nothing, so that no second client is made meanwhile
            self._clients[loop] = client
        return client


class _Client:
    """The HTTP client of one event loop. It closes with the loop, without anyone having to remember it."""

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        # An event loop that shuts down closes the async generators that were begun on it, and this one the client.
        self._lifetime = self._live()
        self._proxies = environment_proxies()
        self._tls: ssl.SSLContext | bool | None = None
        self._session: aiohttp.ClientSession
        self.time = asyncio.get_running_loop().time

    async def open(self) -> None:
        self._session = await anext(self._lifetime)
        # A provider may be forgotten while the loop goes on: its connections are then closed as well.
        weakref.finalize(self, _close_later, asyncio.get_running_loop(), self._session)

    def request(
        self, method: str, url: str, headers: Mapping[str, str], body: Body | None = None
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        proxy = proxy_for(url, self._proxies)
        if self._tls is None and (url.startswith("https:") or (proxy or "").startswith("https:")):
            self._tls = trust()  # takes long, and servers on this machine do without
        data: Any = body
        if isinstance(body, Pieces):
            headers, data = {**headers, "content-length": str(len(body))}, _sliced(body)
        # Redirects are not followed: they could take the key to another host.
        return self._session.request(
            method, url, data=data, headers=headers, proxy=proxy, ssl=self._tls or True, allow_redirects=False
        )

    async def _live(self) -> AsyncGenerator[aiohttp.ClientSession, None]:
        import aiohttp

        times = self._timeouts
        # The time for the whole is kept by whoever reads, at less cost than a timer for each request.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=times.connect, sock_read=times.read)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=True, cookie_jar=aiohttp.DummyCookieJar()
        ) as session:
            yield session


async def _sliced(body: Pieces) -> AsyncIterator[memoryview]:
    """The body a little at a time, as fast as the network takes it, so that it is not copied as a whole."""
    for piece in body.slices():
        yield piece


def _close_later(loop: asyncio.AbstractEventLoop, session: aiohttp.ClientSession) -> None:
    if not loop.is_closed() and not session.closed:
        loop.call_soon_threadsafe(lambda: loop.create_task(session.close()))


def retry_delay(headers: Mapping[str, str], now: Callable[[], float]) -> float | None:
    """The seconds that a server asks to wait, from its headers. `now` is the wall clock."""
    for name, factor in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if value := headers.get(name):
            try:
                return max(0.0, float(value) * factor)
            except ValueError:
                pass
            from email.utils import parsedate_to_datetime  # takes long to load, and few servers write dates

            try:
                return max(0.0, parsedate_to_datetime(value).timestamp() - now())
            except ValueError:
                continue
    return None


def _is_good(response: aiohttp.ClientResponse) -> bool:
    return response.status == 200 and "html" not in response.headers.get("content-type", "").lower()


async def _drain(response: aiohttp.ClientResponse) -> None:
    """Read what may still come after a reply, for a moment: only an answer that was read whole frees its connection."""
    import aiohttp

    if response.content.at_eof():
        return
    with contextlib.suppress(TimeoutError, aiohttp.ClientError, OSError):
        async with asyncio.timeout(LONGEST_EPILOGUE):
            async for _ in response.content.iter_any():
                pass


async def _refusal(response: aiohttp.ClientResponse) -> Refusal:
    body = await response.content.read(MAX_REFUSAL_BYTES)
    return Refusal(response.status, {name.lower(): value for name, value in response.headers.items()}, body)


def trust() -> ssl.SSLContext | bool:
    """The system's certificates, and those that the usual variables name."""
    named = {path: name for name in CA_VARIABLES if (path := os.environ.get(name))}
    if not named:
        return True  # the library's own context, which is there already; making one takes a tenth of a second
    context = ssl.create_default_context()
    for path, name in named.items():
        try:
            context.load_verify_locations(cafile=path)
        except (OSError, ssl.SSLError) as error:
            raise ProviderError(f"the certificates that {name} names ({path}) cannot be read: {error}") from None
    return context


def environment_proxies() -> dict[str, str]:
    """The proxies that the usual variables name, by scheme."""
    from urllib.request import getproxies

    return getproxies()


def proxy_for(url: str, proxies: Mapping[str, str]) -> str | None:
    """The proxy that the usual variables name for this URL."""
    if not proxies:
        return None
    from urllib.request import proxy_bypass

    parts = urlsplit(url)
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(parts.hostname or ""):
        return None
    scheme, separator, _ = proxy.partition("://")
    if separator and scheme not in ("http", "https"):
        raise ProviderError(f"a {scheme} proxy cannot be used for {_host(url)}; set an HTTP proxy, or NO_PROXY")
    return proxy if separator else f"http://{proxy}"


def _host(url: str) -> str:
    """The host and port, for sentences; the whole if that is no URL, but never a password."""
    try:
        host = urlsplit(url).netloc or url
    except ValueError:
        host = url
    return host.rpartition("@")[2]


def _explained(error: Exception, url: str, begun: bool = False) -> ProviderError:
    """What went wrong on the way. Says nothing of the headers, nor of passwords in URLs."""
    import aiohttp

    host, said = _host(url), _reason(error)
    match error:
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError():
            return ProviderError(f"{host!r} is not a URL that can be asked; check the base URL and the proxies")
        case TimeoutError():
            return UnavailableError(f"{host} took too long to answer", retryable=True)
        case aiohttp.ClientConnectorCertificateError():
            return UnavailableError(
                f"the certificate of {host} is not trusted: {said}; {CA_VARIABLES[0]} can name its issuer"
            )
        case aiohttp.ClientProxyConnectionError() | aiohttp.ClientHttpProxyError():
            return UnavailableError(f"{host} cannot be reached through the proxy: {said}; check it", retryable=True)
        case aiohttp.ClientError() | OSError():
            if begun:
                return IncompleteStreamError(f"the answer of {host} broke off: {said}", retryable=True)
            what_to_do = "check the address and the network"
            return UnavailableError(f"{host} cannot be reached: {said}; {what_to_do}", retryable=True)
    return ProviderError(f"the request to {host} cannot be sent: {said}")


def _reason(error: Exception) -> str:
    if status := getattr(error, "status", None):  # its text has the URL in it, and with that perhaps a password
        return f"{status} {getattr(error, 'message', '')}"
    reason: Any = getattr(error, "os_error", None) or getattr(error, "certificate_error", None) or error
    said = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    if said.startswith("Connect call failed"):  # what follows is an address as Python writes it
        return os.strerror(reason.errno)
    return "it is not complete" if said.startswith("Response payload") else said
