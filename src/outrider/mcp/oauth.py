"""Logins to MCP servers with OAuth 2.1: discovery, registration, the authorization code with PKCE, refresh, step-up.

The library opens no browser: the caller gives `open_url`. Without it, tokens are only used and refreshed. Tokens and
secrets are in the store and in requests, never in an error.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TypeAlias
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from msgspec.structs import replace

from outrider.errors import McpLoginError
from outrider.mcp.oauth_discovery import (
    Challenge,
    Discovered,
    OAuthRequests,
    RefusedError,
    ServerMetadata,
    discover,
    parse_challenge,
)
from outrider.mcp.servers import HttpServer
from outrider.mcp.tokens import Login, Registration, Tokens, TokenStore, register, request_token
from outrider.text.visible import one_line

OpenUrl: TypeAlias = Callable[[str], Awaitable[None]]  # shows a page to the person, in a browser

LOGIN_SECONDS = 600.0  # how long a person may take to log in
_EARLY_SECONDS = 30.0  # how long before its end a token is refreshed
_MOST_LOGINS = 5  # how often one connection may ask the person to log in

HOST = "127.0.0.1"
PATH = "/callback"
_MAX_LINE = 16 * 1024
_REQUEST_SECONDS = 10.0
_PAGE = b"<!doctype html><meta charset=utf-8><title>Outrider</title><p>%b</p>"
_DONE = _PAGE % b"You are logged in. You can close this page and go back to Outrider."
_UNKNOWN = _PAGE % b"This page belongs to no login that is under way."


class LoginRedirect:
    """Waits for the redirect that carries the state of the login. Others are refused, and do not end the wait."""

    def __init__(self, state: str) -> None:
        self.uri = ""
        self._state = state
        self._answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()

    async def answer(self, seconds: float) -> dict[str, str]:
        """Return the parameters of the redirect. Raises McpLoginError if it does not come in time."""
        try:
            async with asyncio.timeout(seconds):
                return await self._answer
        except TimeoutError:
            raise McpLoginError(f"The login was not finished within {seconds / 60:g} minutes. Try again.") from None

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                line = await reader.readline()
                status, page = self._take(line.decode("ascii", "replace"))
                head = f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {len(page)}\r\n"
                writer.write(f"{head}Connection: close\r\nReferrer-Policy: no-referrer\r\n\r\n".encode() + page)
                await writer.drain()
        except (OSError, ValueError):  # the browser went away, or sent too long a line
            return
        finally:
            writer.close()

    def _take(self, line: str) -> tuple[str, bytes]:
        verb, _, rest = line.partition(" ")
        target = urlsplit(rest.partition(" ")[0])
        found = {name: values[0] for name, values in parse_qs(target.query, max_num_fields=50).items()}
        if verb != "GET" or target.path != PATH or found.get("state") != self._state:
            return "404 Not Found", _UNKNOWN
        if not self._answer.done():
            self._answer.set_result(found)
        return "200 OK", _DONE


@contextlib.asynccontextmanager
async def login_redirect(known: Registration | None, state: str) -> AsyncIterator[LoginRedirect]:
    """Listen on the port of the registration if it is free, otherwise on any. Raises McpLoginError."""
    redirect = LoginRedirect(state)
    registered = urlsplit(known.redirect_uri).port or 0 if known and known.redirect_uri else 0
    for port in (registered, 0):
        with contextlib.suppress(OSError):
            server = await asyncio.start_server(redirect.handle, HOST, port, limit=_MAX_LINE)
            break
    else:
        raise McpLoginError("The login needs port 0 of this machine, which is taken.")
    async with server:
        redirect.uri = f"http://{HOST}:{server.sockets[0].getsockname()[1]}{PATH}"
        yield redirect
        await asyncio.sleep(0)


class OAuth:
    """The authorization for one server. It is used in one event loop."""

    def __init__(
        self,
        server: HttpServer,
        store: TokenStore,
        *,
        open_url: OpenUrl | None = None,
        client: Registration | None = None,
        client_metadata_url: str = "",
        login_seconds: float = LOGIN_SECONDS,
    ) -> None:
        """`client` is registered beforehand. `client_metadata_url` is an https address that describes the client."""
        self._url = server.url
        self._store = store
        self._open_url = open_url
        self._client = client
        self._client_metadata_url = client_metadata_url
        self._login_seconds = login_seconds
        self._requests = OAuthRequests(server.url)
        self._login: Login | None = None
        self._is_loaded = False
        self._new_token = ""
        """The token of the last login here: a server that refuses it will refuse the next one as well."""
        self._logins = 0

    async def headers(self) -> Mapping[str, str]:
        """Return the header with the token; none without a login. A token at its end is refreshed first."""
        tokens = self._tokens()
        is_ending = tokens and tokens.expires_at is not None and time.time() > tokens.expires_at - _EARLY_SECONDS
        if tokens and tokens.refresh_token and is_ending:
            await self._refresh(tokens)
            tokens = self._tokens()
        return {"Authorization": f"Bearer {tokens.access_token}"} if tokens else {}

    async def challenged(self, status: int, www_authenticate: str | None) -> bool:
        """Get a token that the server accepts. Return whether there is a new one. Raises McpLoginError."""
        challenge = parse_challenge(www_authenticate)
        if status == 403 and challenge.error != "insufficient_scope":
            return False
        try:
            return await self._step_up(challenge) if status == 403 else await self._renew(challenge)
        finally:
            await self._requests.close()

    async def _renew(self, challenge: Challenge) -> bool:
        """Replace a token that the server refused: refresh it, or let the person log in."""
        found = await discover(self._requests, self._url, challenge)
        tokens = self._tokens()
        login = self._login
        if tokens and login and login.issuer == found.server.issuer:
            if await self._refresh(tokens):
                return True
            if tokens.access_token == self._new_token:
                return False
        return await self._log_in(found, challenge.scope or found.scopes)

    async def _step_up(self, challenge: Challenge) -> bool:
        """Ask for the scopes of a challenge in addition to those there are, once for each set of scopes."""
        tokens = self._tokens()
        had = tokens.scope.split() if tokens else []
        wanted = list(dict.fromkeys([*had, *challenge.scope.split()]))
        if set(wanted) <= set(had):
            return False  # the server wants what it has
        return await self._log_in(await discover(self._requests, self._url, challenge), " ".join(wanted))

    async def _log_in(self, found: Discovered, scope: str) -> bool:
        if self._open_url is None or self._logins >= _MOST_LOGINS:
            return False
        self._logins += 1
        _check_server(found.server)
        await self._requests.check(found.server.authorization_endpoint)  # a browser would open any scheme
        if "offline_access" in (found.server.scopes_supported or ()) and "offline_access" not in scope.split():
            scope = f"{scope} offline_access".strip()
        state = secrets.token_urlsafe(32)
        known = self._known_client(found.server)
        async with login_redirect(known, state) as redirect:
            is_usable = known and known.redirect_uri in ("", redirect.uri)
            client = known if known and is_usable else await register(self._requests, found.server, redirect.uri, scope)
            login = Login(found.server.issuer, found.server.token_endpoint, found.resource, client)
            tokens = await self._authorize(found.server, login, redirect, state, scope)
        async with self._store.locked():
            self._write(login, tokens)
        self._new_token = tokens.access_token
        return True

    async def _authorize(
        self, server: ServerMetadata, login: Login, redirect: LoginRedirect, state: str, scope: str
    ) -> Tokens:
        assert self._open_url is not None
        verifier = secrets.token_urlsafe(48)
        hashed = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        fields = {
            "response_type": "code",
            "client_id": login.client.client_id,
            "redirect_uri": redirect.uri,
            "state": state,
            "code_challenge": hashed,
            "code_challenge_method": "S256",
            "resource": login.resource,
            **({"scope": scope} if scope else {}),
            **({"prompt": "consent"} if "offline_access" in scope.split() else {}),
        }
        page = urlsplit(server.authorization_endpoint)
        query = urlencode([*parse_qsl(page.query), *fields.items()])
        await self._open_url(page._replace(query=query, fragment="").geturl())
        granted = {
            "grant_type": "authorization_code",
            "code": _code(await redirect.answer(self._login_seconds), server),
            "redirect_uri": redirect.uri,
            "code_verifier": verifier,
            "resource": login.resource,
        }
        methods = server.token_endpoint_auth_methods_supported
        endpoint = login.token_endpoint
        return await request_token(self._requests, endpoint, login.client, granted, scope=scope, methods=methods)

    def _known_client(self, server: ServerMetadata) -> Registration | None:
        """Return a client that this authorization server knows. Another server's client is never sent to it."""
        if self._client:
            if self._client.issuer not in ("", server.issuer):
                raise McpLoginError(
                    f"The login failed: the client is registered at {self._client.issuer}, "
                    f"and the MCP server uses {one_line(server.issuer, 200)}."
                )
            return self._client
        if self._client_metadata_url and server.client_id_metadata_document_supported:
            return Registration(self._client_metadata_url, auth_method="none")
        stored = self._login.client if self._login else None
        return stored if stored and stored.issuer == server.issuer else None

    async def _refresh(self, tokens: Tokens) -> bool:
        """Refresh the tokens, unless another process has done it. Return whether there are new ones."""
        async with self._store.locked():
            self._login = login = self._store.read(self._url) or self._login
            if login is None or login.tokens is None:
                return False
            if login.tokens.access_token != tokens.access_token:
                return True
            if not tokens.refresh_token:
                return False
            fields = {"grant_type": "refresh_token", "refresh_token": tokens.refresh_token, "resource": login.resource}
            try:
                new = await request_token(
                    self._requests, login.token_endpoint, login.client, fields, scope=tokens.scope
                )
            except RefusedError as error:
                if error.error == "invalid_grant":  # it will never work again
                    self._write(login, replace(tokens, refresh_token=""))
                return False
            self._write(login, replace(new, refresh_token=new.refresh_token or tokens.refresh_token))
            return True

    def _tokens(self) -> Tokens | None:
        if not self._is_loaded:
            self._login, self._is_loaded = self._store.read(self._url), True
        return self._login.tokens if self._login else None

    def _write(self, login: Login, tokens: Tokens) -> None:
        self._login = replace(login, tokens=tokens)
        self._store.write(self._url, self._login)


def _check_server(server: ServerMetadata) -> None:
    if not server.authorization_endpoint or not server.token_endpoint:
        raise McpLoginError(f"The login failed: {one_line(server.issuer, 200)} does not say where to log in.")
    if "S256" not in (server.code_challenge_methods_supported or ()):
        raise McpLoginError(
            f"The login failed: {one_line(server.issuer, 200)} does not support PKCE (S256), which keeps logins safe."
        )


def _code(answer: Mapping[str, str], server: ServerMetadata) -> str:
    """Return the code in a redirect. Raises McpLoginError if it comes from another server, or is an error."""
    issuer = answer.get("iss")
    is_promised = server.authorization_response_iss_parameter_supported
    if (issuer is None and is_promised) or issuer not in (None, server.issuer):
        raise McpLoginError("The login failed: the answer came from another authorization server.")
    if "code" not in answer:
        said = ": ".join(filter(None, (answer.get("error"), answer.get("error_description"))))
        raise McpLoginError(f"The login failed: {one_line(said, 300) or 'the server sent no code'}.")
    return answer["code"]
