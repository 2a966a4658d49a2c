"""Authorization of a program by itself, without a person: the client credentials grant of OAuth 2.1."""

from __future__ import annotations

from collections.abc import Mapping

from outrider.mcp.challenges import parse_challenge
from outrider.mcp.oauth_discovery import discover
from outrider.mcp.oauth_grants import request_token
from outrider.mcp.oauth_requests import OAuthRequests
from outrider.mcp.servers import HttpServer
from outrider.mcp.tokens import Registration, Tokens


class ClientCredentials:
    """The authorization of a client that was registered beforehand. Tokens are kept in memory only."""

    def __init__(self, server: HttpServer, client: Registration) -> None:
        self._url = server.url
        self._client = client
        self._requests = OAuthRequests(server.url)
        self._tokens: Tokens | None = None
        self._asked = ""
        """The scopes of the last refused token: asking for them again would not help."""

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
