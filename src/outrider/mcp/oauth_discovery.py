"""Which authorization server an MCP server uses, what it offers (RFC 9728, RFC 8414, OpenID), and how it is asked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec

from outrider.errors import McpLoginError, ProviderError
from outrider.providers.transport.addresses import is_local_name, literal_address, system_resolver, why_private
from outrider.providers.transport.http import Timeouts, Transport
from outrider.struct_types import described
from outrider.text.visible import one_line
from outrider.version import __version__

T = TypeVar("T")

_MAX_BYTES = 1024 * 1024
_TIMEOUTS = Timeouts(connect=15.0, read=30.0, total=60.0)
_HEADERS = {"accept": "application/json", "user-agent": f"outrider/{__version__}"}


class OAuthFailure(msgspec.Struct, frozen=True):
    error: str = ""
    error_description: str = ""


class OAuthRequests:
    """Sends the requests of one login, for a public server never to private addresses or http."""

    def __init__(self, server_url: str) -> None:
        self._server_url = server_url
        self._transport: Transport | None = None
        self._is_private = False

    async def get(self, url: str, wanted: type[T]) -> T | None:
        status, body = await self._send("GET", url, _HEADERS, None)
        with suppress(msgspec.DecodeError, RecursionError):
            return msgspec.json.decode(body, type=described(wanted)) if status == 200 else None
        return None

    async def post(
        self,
        url: str,
        fields: Mapping[str, object],
        wanted: type[T],
        *,
        headers: Mapping[str, str] = {},
        json: bool = False,
    ) -> T:
        """Post fields and return the JSON of the response. Raises McpLoginError, without the values of the fields."""
        kind = "application/json" if json else "application/x-www-form-urlencoded"
        body = msgspec.json.encode(fields) if json else urlencode(fields).encode()
        status, answer = await self._send("POST", url, {**_HEADERS, **headers, "content-type": kind}, body)
        try:
            if 200 <= status < 300:
                return msgspec.json.decode(answer, type=described(wanted))
            failure = msgspec.json.decode(answer, type=described(OAuthFailure))
        except (msgspec.DecodeError, RecursionError):
            failure = OAuthFailure()
        said = ": ".join(part for part in (failure.error, failure.error_description) if part)
        for secret in (*fields.values(), *headers.values()):
            if isinstance(secret, str) and len(secret) >= 6:
                said = said.replace(secret, "…")
        host = one_line(urlsplit(url).netloc.rpartition("@")[2], 100)
        told = f" ({one_line(said, 300)})" if said else ""
        raise RefusedError(f"{host} answered with status {status}{told}", failure.error)

    async def check(self, url: str) -> None:
        """Check an address that a server named. Raises McpLoginError if it may not be used."""
        await self._ready()
        if not is_usable_url(url, allow_http=self._is_private):
            raise McpLoginError(f"The login failed: {one_line(url, 200)!r} is not an https address.")

    async def close(self) -> None:
        if self._transport:
            await self._transport.close()

    async def _send(self, verb: str, url: str, headers: Mapping[str, str], body: bytes | None) -> tuple[int, bytes]:
        await self.check(url)
        transport = await self._ready()
        try:
            async with transport.open(verb, url, headers, body) as response:
                return response.status, await response.read(_MAX_BYTES)
        except ProviderError as error:
            raise McpLoginError(f"The login failed: {one_line(str(error), 300)}.") from None

    async def _ready(self) -> Transport:
        if self._transport is None:
            self._is_private = await _is_private(self._server_url)
            self._transport = Transport(_TIMEOUTS, public_only=not self._is_private)
        return self._transport


class RefusedError(McpLoginError):
    """An authorization server refused a request. `error` is its code."""

    def __init__(self, reason: str, error: str) -> None:
        super().__init__(f"The login failed: {reason}.")
        self.error = error


def is_usable_url(url: str, *, allow_http: bool) -> bool:
    """Return whether a URL of a server may be used: https, or http for servers of the private network."""
    try:
        parts = urlsplit(url)
        has_host, _ = bool(parts.hostname), parts.port
    except ValueError:
        return False
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and allow_http)
    return is_safe and has_host and url.isprintable() and " " not in url and parts.username is None


async def _is_private(url: str) -> bool:
    """Return whether a URL that the user configured is in the private network: then its logins may be there too."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if address := literal_address(host):
        return bool(why_private(address))
    if is_local_name(host):
        return True
    try:
        found = await system_resolver()(host, parts.port or 0)
    except OSError:
        return False  # a proxy may resolve it
    return any(why_private(address) for address in found)


PROTECTED_RESOURCE = "/.well-known/oauth-protected-resource"
AUTHORIZATION_SERVER = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"

_LONGEST = 16_000
_BEARER = re.compile(r"(?:^|,)\s*bearer(?:\s+|$)", re.IGNORECASE)
_PARAMETER = re.compile(r'\s*,?\s*([a-zA-Z0-9_-]{1,50})\s*=\s*(?:"((?:[^"\\]|\\.){0,4000})"|([^\s,"]{1,4000}))')


class Challenge(msgspec.Struct, frozen=True):
    """What a server says about the token that it wants."""

    error: str = ""
    scope: str = ""
    resource_metadata: str = ""


def parse_challenge(header: str | None) -> Challenge:
    """Return the Bearer challenge in a header; an empty one if there is none.

    >>> parse_challenge('Basic realm="x", Bearer error="insufficient_scope", scope="a b"')
    Challenge(error='insufficient_scope', scope='a b', resource_metadata='')
    """
    header = (header or "")[:_LONGEST]
    found = _BEARER.search(header)
    if found is None:
        return Challenge()
    values: dict[str, str] = {}
    place = found.end()
    while parameter := _PARAMETER.match(header, place):
        name, quoted, plain = parameter.groups()
        values.setdefault(name.lower(), plain or re.sub(r"\\(.)", r"\1", quoted or ""))
        place = parameter.end()
    return Challenge(values.get("error", ""), values.get("scope", ""), values.get("resource_metadata", ""))


class ResourceMetadata(msgspec.Struct, frozen=True):
    """What an MCP server says about the tokens that it takes."""

    resource: str = ""
    authorization_servers: list[str] = []
    scopes_supported: list[str] | None = None


class ServerMetadata(msgspec.Struct, frozen=True):
    """What an authorization server says about itself."""

    issuer: str
    authorization_endpoint: str = ""
    token_endpoint: str = ""
    registration_endpoint: str = ""
    scopes_supported: list[str] | None = None
    code_challenge_methods_supported: list[str] | None = None
    token_endpoint_auth_methods_supported: list[str] | None = None
    client_id_metadata_document_supported: bool | None = None
    authorization_response_iss_parameter_supported: bool | None = None


class Discovered(msgspec.Struct, frozen=True):
    """Where and for what to ask for a token."""

    resource: str
    server: ServerMetadata
    scopes: str = ""  # the scopes that the MCP server names, for a challenge that names none


async def discover(requests: OAuthRequests, server_url: str, challenge: Challenge) -> Discovered:
    """Find the authorization server of an MCP server. Raises McpLoginError."""
    metadata = await _resource_metadata(requests, server_url, challenge)
    if metadata is None:  # until 2025-03-26 an MCP server was its own authorization server
        parts = urlsplit(server_url)
        issuer = f"{parts.scheme}://{parts.netloc}"
        own = await _server_metadata(requests, issuer) or ServerMetadata(
            issuer,
            authorization_endpoint=f"{issuer}/authorize",
            token_endpoint=f"{issuer}/token",
            registration_endpoint=f"{issuer}/register",
            code_challenge_methods_supported=["S256"],
        )
        return Discovered(canonical(server_url), own)
    if not metadata.authorization_servers:
        raise McpLoginError("The login failed: the MCP server names no authorization server.")
    issuer = metadata.authorization_servers[0]
    server = await _server_metadata(requests, issuer)
    if server is None:
        raise McpLoginError(f"The login failed: {one_line(issuer, 200)} does not say where to log in.")
    scopes = " ".join(metadata.scopes_supported or ())
    return Discovered(metadata.resource or canonical(server_url), server, scopes)


def canonical(url: str) -> str:
    """Return a URL as the identifier of a resource: lower-case scheme and host, no fragment.

    >>> canonical("HTTPS://Example.org/mcp#x")
    'https://example.org/mcp'
    """
    parts = urlsplit(url)
    path = "" if parts.path == "/" else parts.path
    return parts._replace(scheme=parts.scheme.lower(), netloc=parts.netloc.lower(), path=path, fragment="").geturl()


def covers(resource: str, url: str) -> bool:
    """Return whether a resource is the server at a URL, or a folder above it.

    >>> covers("https://example.org/", "https://example.org/mcp"), covers("https://evil.org", "https://example.org/mcp")
    (True, False)
    """
    try:
        claimed, used = urlsplit(canonical(resource)), urlsplit(canonical(url))
    except ValueError:
        return False
    folder = claimed.path.rstrip("/")
    is_same_host = (claimed.scheme, claimed.netloc) == (used.scheme, used.netloc)
    return is_same_host and (used.path.rstrip("/") == folder or used.path.startswith(f"{folder}/"))


async def _resource_metadata(requests: OAuthRequests, server_url: str, challenge: Challenge) -> ResourceMetadata | None:
    places = [challenge.resource_metadata] if challenge.resource_metadata else _well_known(server_url)
    for place in places:
        metadata = await requests.get(place, ResourceMetadata)
        if metadata is None:
            continue
        if metadata.resource and not covers(metadata.resource, server_url):
            raise McpLoginError(
                f"The login failed: the MCP server asks for tokens of another one, {one_line(metadata.resource, 200)}."
            )
        return metadata
    return None


def _well_known(server_url: str) -> list[str]:
    parts = urlsplit(server_url)
    root = f"{parts.scheme}://{parts.netloc}{PROTECTED_RESOURCE}"
    path = parts.path.rstrip("/")
    return [f"{root}{path}", root] if path else [root]


async def _server_metadata(requests: OAuthRequests, issuer: str) -> ServerMetadata | None:
    for place in _metadata_places(issuer):
        found = await requests.get(place, ServerMetadata)
        if found is None:
            continue
        if found.issuer != issuer:
            raise McpLoginError(
                f"The login failed: {one_line(issuer, 200)} says that it is {one_line(found.issuer, 200)}."
            )
        return found
    return None


def _metadata_places(issuer: str) -> Iterator[str]:
    """Yield where the metadata of an issuer may be, in the order of the protocol."""
    if not is_usable_url(issuer, allow_http=True):
        raise McpLoginError(f"The login failed: {one_line(issuer, 200)!r} is not the address of a server.")
    parts = urlsplit(issuer)
    root, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    yield f"{root}{AUTHORIZATION_SERVER}{path}"
    yield f"{root}{OPENID}{path}"
    if path:
        yield f"{root}{path}{OPENID}"
