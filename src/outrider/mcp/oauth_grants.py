"""Tokens from the token endpoint of an authorization server, and the registration of the client there.

`ClientCredentials` authorizes a program by itself, without a person.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping, Sequence
from urllib.parse import quote

import msgspec

from outrider.errors import McpLoginError
from outrider.mcp.oauth_discovery import ServerMetadata, discover, parse_challenge
from outrider.mcp.oauth_requests import OAuthRequests
from outrider.mcp.servers import HttpServer
from outrider.mcp.tokens import Registration, Tokens

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
