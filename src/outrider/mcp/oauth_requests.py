"""Requests to authorization servers. Their addresses come from a server, so they are not trusted."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec

from outrider.errors import McpLoginError, ProviderError
from outrider.providers.transport.addresses import is_literal, is_local_name, system_resolver, why_private
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
    if is_literal(host):
        return bool(why_private(host))
    if is_local_name(host):
        return True
    try:
        found = await system_resolver()(host, parts.port or 0)
    except OSError:
        return False  # a proxy may resolve it
    return any(why_private(address) for address in found)
