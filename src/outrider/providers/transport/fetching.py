"""Fetch a page or a file from the web without access to the private network.

The address that was checked is the one that is connected to: a name is resolved once for each request, and no socket
is created for any other address. Redirects are checked like the first request. With a proxy in the environment, the
proxy resolves names: literal private addresses, names that resolve to private addresses here, and names that can only
be local are refused, and the rest is left to the proxy, which is the user's own.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote, urlsplit

import msgspec

from outrider.conversation.attachments import Attachment
from outrider.errors import AttachmentError, OutriderError
from outrider.providers.transport import addresses
from outrider.providers.transport.network import environment_proxies, proxy_for, tls_context
from outrider.text import human_size
from outrider.version import __version__

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

MAX_BYTES = 20 * 1024 * 1024  # the limit on a response, after decompression
TIME_LIMIT = 60.0  # seconds for the whole fetch, redirects included
MOST_REDIRECTS = 10
LONGEST_URL = 8000

HEADERS = {
    "User-Agent": f"outrider/{__version__}",
    "Accept": "text/html, text/markdown, text/plain, application/json;q=0.9, */*;q=0.8",
    "Accept-Encoding": "gzip, deflate",
}

ShowProgress: TypeAlias = Callable[[Callable[[], str]], None]  # takes a function that describes the progress
SETTING = "The user can allow private ones with web.private_addresses in the configuration."


class FetchError(Exception):
    """A URL could not be fetched. The message is a sentence."""


class WebResponse(msgspec.Struct, frozen=True):
    url: str  # the URL after redirects
    status: int
    reason: str
    content_type: str
    body: bytes


class Fetcher:
    """Fetches a URL within limits and follows redirects."""

    def __init__(self, resolve: addresses.Resolve, *, private_addresses: bool = False, for_user: bool = False) -> None:
        """`for_user`: the user named the URL, not a model: a redirect may go to another host, but only to https."""
        self._resolve = resolve
        self._allow_private = private_addresses
        self._for_user = for_user

    async def fetch(self, address: str, show: ShowProgress = lambda _: None) -> WebResponse:
        """Return the final response. Raises FetchError if there is none."""
        import aiohttp

        url = _parse(address)
        try:
            async with asyncio.timeout(TIME_LIMIT):
                for _ in range(MOST_REDIRECTS + 1):
                    answer = await self._get(url, show)
                    if isinstance(answer, WebResponse):
                        return answer
                    if self._for_user and answer.scheme != "https":
                        raise FetchError(f"{url} redirects to an address without https, which is not fetched.")
                    # Permission for one host is not permission for another, such as the same one without `www.`.
                    if not self._for_user and _host(answer) != _host(url):
                        raise FetchError(f"{url} redirects to another host: {answer} To read that, fetch it by itself.")
                    url = answer
        except (aiohttp.ClientError, OSError, ValueError, OutriderError) as error:
            raise FetchError(_explain(error, url)) from None
        raise FetchError(f"{address} redirects more than {MOST_REDIRECTS} times; it may be going in circles.")

    async def _get(self, url: URL, show: ShowProgress) -> WebResponse | URL:
        """Return the response to one request, or the URL that it redirects to."""
        import aiohttp

        proxy = proxy_for(str(url), environment_proxies())
        if not self._allow_private:
            await self._check(url, is_proxied=proxy is not None)
        tls = tls_context() if url.scheme == "https" or (proxy or "").startswith("https:") else True
        async with (
            aiohttp.ClientSession(
                connector=self._connector(is_proxied=proxy is not None),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=15),
                headers=HEADERS,
            ) as session,
            session.get(url, proxy=proxy, ssl=tls, allow_redirects=False) as response,
        ):
            location = response.headers.get("location")
            if response.status in (301, 302, 303, 307, 308) and location:
                return _redirect_target(url, location)
            content_type = response.headers.get("content-type", "")
            return WebResponse(
                str(url), response.status, response.reason or "", content_type, await _body(response, show)
            )

    async def _check(self, url: URL, *, is_proxied: bool) -> None:
        """Refuse private addresses that can be recognized before connecting."""
        host = url.raw_host or ""
        if addresses.is_literal(host):
            _refuse_private(host, [host])
        elif is_proxied:
            try:
                _refuse_private(host, await self._resolve(host, url.port or 0))
            except OSError:
                if addresses.is_local_name(host):
                    raise _private_error(host, "a name of the private network") from None

    def _connector(self, *, is_proxied: bool) -> aiohttp.TCPConnector:
        import aiohttp

        if is_proxied:  # the proxy may well be in the private network
            return aiohttp.TCPConnector(force_close=True)
        resolver: Any = _Resolver(self._resolve, self._allow_private)
        factory = None if self._allow_private else addresses.public_socket
        return aiohttp.TCPConnector(force_close=True, use_dns_cache=False, resolver=resolver, socket_factory=factory)


async def fetched(attachment: Attachment, resolve: addresses.Resolve | None = None) -> Attachment:
    """Return an attachment by URL with its bytes. Raise AttachmentError."""
    fetcher = Fetcher(resolve or addresses.system_resolver(), for_user=True)
    try:
        response = await fetcher.fetch(attachment.url)
    except FetchError as error:
        raise AttachmentError(str(error).replace(SETTING, "").strip().removesuffix(".")) from None
    if response.status >= 400:
        raise AttachmentError(f"{attachment.url} answered {response.status} {response.reason}".rstrip())
    if not response.body:
        raise AttachmentError(f"{attachment.url} is empty")
    name = attachment.name or unquote(urlsplit(attachment.url).path.rpartition("/")[2])
    # The content tells the type better than most servers do, but not the charset.
    parameters = response.content_type.partition(";")[2]
    kind = attachment.mime_type or (f";{parameters}" if parameters else "")
    return msgspec.structs.replace(attachment, source=response.body, name=name, mime_type=kind)


class _Resolver:
    """The resolver for aiohttp: it returns only addresses that were checked."""

    def __init__(self, resolve: addresses.Resolve, allow_private: bool) -> None:
        self._resolve = resolve
        self._allow_private = allow_private

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[dict[str, Any]]:
        found = await self._resolve(host, port)
        if not self._allow_private:
            _refuse_private(host, found)
        return [
            {
                "hostname": host,
                "host": address,
                "port": port,
                "family": socket.AF_INET6 if ":" in address else socket.AF_INET,
                "proto": 0,
                "flags": socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            }
            for address in found
        ]

    async def close(self) -> None:
        pass


def _refuse_private(host: str, found: Sequence[str]) -> None:
    for address in found:
        if why := addresses.why_private(address):
            raise _private_error(host, why if address == host else f"{address}, {why}")


def _private_error(host: str, why: str) -> FetchError:
    return FetchError(f"{host} is not a public address ({why}), and only public ones may be fetched. {SETTING}")


def _parse(address: str) -> URL:
    from yarl import URL

    text = address.strip()
    if len(text) > LONGEST_URL or not text.isprintable():
        raise FetchError("That is not a URL: it is too long or has control characters.")
    try:
        return _check_url(URL(text))
    except FetchError:
        raise
    except Exception as error:  # noqa: BLE001 - yarl raises more than ValueError for odd brackets
        reason = f": {str(error).rstrip('.')}" if isinstance(error, ValueError) else ""
        raise FetchError(f"{text} is not a URL that can be fetched{reason}.") from None


def _check_url(url: URL) -> URL:
    if url.scheme not in ("http", "https"):
        raise FetchError("Only addresses that begin with http:// or https:// can be fetched.")
    if url.raw_user is not None or url.raw_password is not None:
        raise FetchError("A URL with a user name or a password is not fetched. Leave them out.")
    if not url.raw_host:
        raise FetchError("The URL has no host.")
    return url.with_fragment(None)


def _host(url: URL) -> str:
    return (url.raw_host or "").rstrip(".")


def _redirect_target(url: URL, location: str) -> URL:
    from yarl import URL

    try:
        return _check_url(url.join(URL(location)))
    except FetchError as failure:
        raise FetchError(f"{url} redirects to an address that is not fetched. {failure}") from None
    except Exception:  # noqa: BLE001 - as above
        raise FetchError(f"{url} redirects to something that is not a URL.") from None


async def _body(response: aiohttp.ClientResponse, show: ShowProgress) -> bytes:
    body = bytearray()
    expected = response.content_length
    whole = f" of {human_size(expected)}" if expected else ""
    async for chunk in response.content.iter_any():
        body.extend(chunk)
        if len(body) > MAX_BYTES:
            raise FetchError(f"{response.url} has more than {human_size(MAX_BYTES)}, which is the limit.")
        show(lambda: f"{human_size(len(body))}{whole}")
    return bytes(body)


def _explain(error: Exception, url: URL) -> str:
    import aiohttp

    host = url.raw_host or ""
    match error:
        case TimeoutError():
            return f"{host} did not answer in time."
        case aiohttp.ClientConnectorDNSError():
            return f"There is no host named {host}, or its name cannot be looked up now."
        case aiohttp.ClientConnectorCertificateError():
            return f"The certificate of {host} is not trusted: {error.certificate_error}."
        case aiohttp.ClientConnectorSSLError():
            return f"No secure connection to {host} is possible: {_reason(error)}."
        case aiohttp.ClientProxyConnectionError() | aiohttp.ClientHttpProxyError():
            return f"{host} cannot be reached through the proxy: {_reason(error)}."
        case aiohttp.InvalidURL():
            return f"{url} is not a URL that can be fetched."
        case aiohttp.ClientPayloadError():
            return f"The response of {host} is incomplete or damaged."
        case aiohttp.ClientError() | OSError():
            return f"{host} cannot be reached: {_reason(error)}."
    return f"{url} cannot be fetched: {error}."


def _reason(error: Exception) -> str:
    if status := getattr(error, "status", None):  # the message has the proxy's URL, perhaps with a password
        return f"{status} {getattr(error, 'message', '')}".strip()
    reason: Any = getattr(error, "os_error", None) or error
    return getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
