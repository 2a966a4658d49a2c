"""Tokens for MCP servers: those that are kept, and those that an authorization server gives."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import msgspec

from outrider.errors import McpError, McpLoginError
from outrider.filesystem import open_lock, replace_private, try_lock
from outrider.mcp.oauth_discovery import OAuthRequests, ServerMetadata, discover, parse_challenge
from outrider.mcp.servers import HttpServer
from outrider.struct_types import described

FILE = "mcp-logins.json"
_LOCK_SECONDS = 60.0
_LOCK_PAUSE = 0.02


class Registration(msgspec.Struct, frozen=True, omit_defaults=True):
    client_id: str
    client_secret: str = ""
    auth_method: str = ""
    """How the client authenticates at the token endpoint; empty to choose by what the server supports."""
    redirect_uri: str = ""  # the registered redirect; empty if any port of this machine is allowed
    issuer: str = ""  # the server that knows the client; empty for any

    def __repr__(self) -> str:
        return f"Registration({self.client_id!r})"


class Tokens(msgspec.Struct, frozen=True, omit_defaults=True):
    access_token: str
    refresh_token: str = ""
    expires_at: float | None = None
    scope: str = ""  # the scopes that were asked for, and granted as far as the server says

    def __repr__(self) -> str:
        return f"Tokens(scope={self.scope!r})"


class Login(msgspec.Struct, frozen=True, omit_defaults=True):
    issuer: str
    token_endpoint: str
    resource: str
    client: Registration
    tokens: Tokens | None = None


class TokenStore:
    """Logins by the address of the server, in a file of a folder. Sessions and processes share it."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE

    def read(self, url: str) -> Login | None:
        return self._read().get(url)

    def write(self, url: str, login: Login) -> None:
        self._write({**self._read(), url: login})

    def remove(self, url: str) -> bool:
        """Remove a login. Return whether there was one. Raises McpError."""
        logins = self._read()
        if url not in logins:
            return False
        self._write({each: login for each, login in logins.items() if each != url})
        return True

    @contextlib.asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Hold the file, so that no other process uses a refresh token at the same time. Raises McpError."""
        try:
            handle = open_lock(self._file.with_name(f"{FILE}.lock"))
        except OSError as error:
            raise McpError(f"The logins in {self._file} cannot be locked: {error.strerror}.") from None
        loop = asyncio.get_running_loop()
        until = loop.time() + _LOCK_SECONDS
        try:
            while not try_lock(handle):
                if loop.time() > until:
                    raise McpError(f"Another process holds {self._file}. End it, or try again.")
                await asyncio.sleep(_LOCK_PAUSE)
            yield
        finally:
            os.close(handle)

    def _read(self) -> dict[str, Login]:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=described(dict[str, Login]))
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError, RecursionError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is damaged"
            raise McpError(
                f"The logins in {self._file} cannot be read: {reason}. Remove the file and log in again."
            ) from None

    def _write(self, logins: dict[str, Login]) -> None:
        try:
            replace_private(self._file, msgspec.json.format(msgspec.json.encode(logins)))
        except OSError as error:
            raise McpError(f"The login cannot be kept in {self._file}: {error.strerror}.") from None


CLIENT_NAME = "Outrider"
_LONGEST_TOKEN = 64 * 1024


class TokenResponse(msgspec.Struct, frozen=True):
    access_token: str
    token_type: str = "Bearer"
    expires_in: float | None = None
    refresh_token: str = ""
    scope: str = ""


class RegistrationResponse(msgspec.Struct, frozen=True):
    client_id: str
    client_secret: str = ""
    token_endpoint_auth_method: str = ""


async def request_token(
    requests: OAuthRequests,
    endpoint: str,
    client: Registration,
    fields: Mapping[str, str],
    *,
    scope: str,
    methods: Sequence[str] | None = None,
) -> Tokens:
    """Ask for tokens. `scope` counts if the server does not say what it granted. Raises McpLoginError."""
    headers, credentials = _authentication(client, methods)
    answer = await requests.post(endpoint, {**fields, **credentials}, TokenResponse, headers=headers)
    if answer.token_type.lower() != "bearer":
        raise McpLoginError("The login failed: the authorization server gives tokens of an unknown kind.")
    if not answer.access_token.isascii() or not answer.access_token.isprintable():
        raise McpLoginError("The login failed: the authorization server sent a token that cannot be used.")
    if max(len(answer.access_token), len(answer.refresh_token)) > _LONGEST_TOKEN:
        raise McpLoginError("The login failed: the authorization server sent a token that is too long.")
    expires_at = None if answer.expires_in is None else time.time() + answer.expires_in
    return Tokens(answer.access_token, answer.refresh_token, expires_at, answer.scope or scope)


async def register(requests: OAuthRequests, server: ServerMetadata, redirect_uri: str, scope: str) -> Registration:
    """Register the client at an authorization server. Raises McpLoginError."""
    if not server.registration_endpoint:
        raise McpLoginError(
            f"The login failed: {server.issuer[:200]} accepts registered clients only. "
            "Register one there, and configure its id."
        )
    supported = server.token_endpoint_auth_methods_supported
    method = "none" if supported is None or "none" in supported else supported[0] if supported else "none"
    wanted = {
        "client_name": CLIENT_NAME,
        "application_type": "native",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
        **({"scope": scope} if scope else {}),
    }
    found = await requests.post(server.registration_endpoint, wanted, RegistrationResponse, json=True)
    method = found.token_endpoint_auth_method or (method if found.client_secret or method == "none" else "none")
    return Registration(found.client_id, found.client_secret, method, redirect_uri, server.issuer)


def _authentication(client: Registration, methods: Sequence[str] | None) -> tuple[dict[str, str], dict[str, str]]:
    if not client.client_secret or client.auth_method == "none":
        return {}, {"client_id": client.client_id}
    takes_only_post = "client_secret_post" in (methods or ()) and "client_secret_basic" not in (methods or ())
    if client.auth_method == "client_secret_post" or (not client.auth_method and takes_only_post):
        return {}, {"client_id": client.client_id, "client_secret": client.client_secret}
    pair = f"{quote(client.client_id, safe='')}:{quote(client.client_secret, safe='')}"
    return {"authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}, {}


class ClientCredentials:
    """The authorization of a client that was registered beforehand. Tokens are kept in memory only."""

    def __init__(self, server: HttpServer, client: Registration) -> None:
        self._url = server.url
        self._client = client
        self._requests = OAuthRequests(server.url)
        self._tokens: Tokens | None = None
        self._asked = ""  # the scopes of the last refused token: asking for them again would not help

    async def headers(self) -> Mapping[str, str]:
        """Return the header with the token; none before the first challenge."""
        return {"Authorization": f"Bearer {self._tokens.access_token}"} if self._tokens else {}

    async def challenged(self, status: int, www_authenticate: str | None) -> bool:
        """Get a token. Return whether there is a new one. Raises McpLoginError."""
        challenge = parse_challenge(www_authenticate)
        if status == 403 and (challenge.error != "insufficient_scope" or challenge.scope == self._asked):
            return False
        try:
            found = await discover(self._requests, self._url, challenge)
            scope = challenge.scope or found.scopes
            fields = {"grant_type": "client_credentials", "resource": found.resource}
            self._tokens = await request_token(
                self._requests,
                found.server.token_endpoint,
                self._client,
                {**fields, "scope": scope} if scope else fields,
                scope=scope,
                methods=found.server.token_endpoint_auth_methods_supported,
            )
            self._asked = challenge.scope
            return True
        finally:
            await self._requests.close()
