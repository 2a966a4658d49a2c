"""Fetch a page or a file from the web without access to the private network.

The address that was checked is the one that is connected to: a name is resolved once for each request, and no socket
is created for any other address. Redirects are checked like the first request. With a proxy in the environment, the
proxy resolves names: literal private addresses, names that resolve to private addresses here, and names that can only
be local are refused, and the rest is left to the proxy, which is the user's own.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import unquote, urlsplit

import msgspec

from outrider.conversation.attachments import Attachment
from outrider.errors import AttachmentError, OutriderError
from outrider.providers.transport import addresses
from outrider.providers.transport.network import environment_proxies, proxy_for
from outrider.text import human_size
from outrider.version import __version__

if TYPE_CHECKING:
    from yarl import URL

    from outrider.providers.transport.client import AddressInfo, Client
    from outrider.providers.transport.connection import Incoming

MAX_BYTES = 20 * 1024 * 1024  # the limit on a response, after decompression
CONNECT_SECONDS = 15.0
TIME_LIMIT = 60.0  # seconds for the whole fetch, redirects included
MOST_REDIRECTS = 10
LONGEST_URL = 8000

HEADERS = {
    "User-Agent": f"outrider/{__version__}",
    "Accept": "text/html, text/markdown, text/plain, application/json;q=0.9, */*;q=0.8",
    "Connection": "close",
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
        from outrider.providers.transport.connection import HttpError

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
        except (HttpError, OSError, ValueError, OutriderError) as error:
            raise FetchError(_explain(error, url)) from None
        raise FetchError(f"{address} redirects more than {MOST_REDIRECTS} times; it may be going in circles.")

    async def _get(self, url: URL, show: ShowProgress) -> WebResponse | URL:
        """Return the response to one request, or the URL that it redirects to."""
        proxy = proxy_for(str(url), environment_proxies())
        if not self._allow_private:
            await self._check(url, is_proxied=proxy is not None)
        client = await self._client(is_proxied=proxy is not None).open()
        try:
            async with client.request("GET", str(url), HEADERS, read_seconds=TIME_LIMIT, proxy=proxy) as response:
                location = response.header("location")
                if response.status in (301, 302, 303, 307, 308) and location:
                    return _redirect_target(url, location)
                body = await _body(url, response, show)
                return WebResponse(str(url), response.status, response.reason, response.header("content-type"), body)
        finally:
            await client.close()

    async def _check(self, url: URL, *, is_proxied: bool) -> None:
        """Refuse private addresses that can be recognized before connecting."""
        host = url.raw_host or ""
        if address := addresses.literal_address(host):
            _refuse_private(host, [address])
        elif is_proxied:
            try:
                _refuse_private(host, await self._resolve(host, url.port or 0))
            except OSError:
                if addresses.is_local_name(host):
                    raise _private_error(host, "a name of the private network") from None

    def _client(self, *, is_proxied: bool) -> Client:
        from outrider.providers.transport.client import Client

        if is_proxied:  # the proxy may well be in the private network
            return Client(CONNECT_SECONDS)
        factory = None if self._allow_private else addresses.public_socket
        return Client(CONNECT_SECONDS, lookup=self._lookup, make_socket=factory)

    async def _lookup(self, host: str, port: int) -> Sequence[AddressInfo]:
        """Look a host up. Only addresses that were checked are connected to."""
        found = await self._resolve(host, port)
        if not self._allow_private:
            _refuse_private(host, found)
        return [
            (socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, port))
            for address in found
        ]


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


async def _body(url: URL, response: Incoming, show: ShowProgress) -> bytes:
    body = bytearray()
    expected = response.header("content-length")
    whole = f" of {human_size(int(expected))}" if expected.isascii() and expected.isdigit() else ""
    while chunk := await response.read():
        body.extend(chunk)
        if len(body) > MAX_BYTES:
            raise FetchError(f"{url} has more than {human_size(MAX_BYTES)}, which is the limit.")
        show(lambda: f"{human_size(len(body))}{whole}")
    return bytes(body)


def _explain(error: Exception, url: URL) -> str:
    from outrider.providers.transport.client import ProxyError, UnknownHostError, UrlError, reason_of
    from outrider.providers.transport.connection import HttpError

    host, reason = url.raw_host or "", reason_of(error)
    match error:
        case TimeoutError():
            return f"{host} did not answer in time."
        case UnknownHostError():
            return f"There is no host named {host}, or its name cannot be looked up now."
        case ssl.SSLCertVerificationError():
            return f"The certificate of {host} is not trusted: {reason}."
        case ssl.SSLError():
            return f"No secure connection to {host} is possible: {reason}."
        case ProxyError():
            return f"{host} cannot be reached through the proxy: {reason}."
        case UrlError():
            return f"{url} is not a URL that can be fetched."
        case HttpError():
            return f"The response of {host} is incomplete or damaged: {reason}."
        case OSError():
            return f"{host} cannot be reached: {reason}."
    return f"{url} cannot be fetched: {error}."
