"""An MCP server that wants tokens, and its authorization server, on the loopback interface."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import aiohttp
from aiohttp import web

from tests.mcp.http_server import HttpPeer, serving


class LoginServer:
    """A stateless MCP server behind a login. Its fields decide what it says; `forms` has what it was asked."""

    def __init__(self) -> None:
        self.address = ""
        self.peer = HttpPeer("modern")
        self.valid: set[str] = set()
        """The tokens that the MCP server takes."""
        self.scope = "read"
        self.metadata: dict[str, Any] = {}
        """Fields of the server's metadata that replace the usual ones."""
        self.resource: dict[str, Any] = {}
        self.redirected: dict[str, str] = {}
        """Fields that the redirect has in addition."""
        self.expires_in: float | None = 3600
        self.can_refresh = True
        self.refuse: Callable[[Mapping[str, str]], web.Response | None] = lambda form: None
        self.registrations: list[dict[str, Any]] = []
        self.authorizations: list[dict[str, str]] = []
        self.forms: list[dict[str, str]] = []
        self._challenges: dict[str, str] = {}
        self._refresh_tokens: set[str] = set()

    async def mcp(self, request: web.Request) -> web.StreamResponse:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if token not in self.valid:
            place = f"{self.address}/.well-known/oauth-protected-resource/mcp"
            value = f'Bearer resource_metadata="{place}", scope="{self.scope}"'
            return web.Response(status=401, headers={"WWW-Authenticate": value})
        return await self.peer.serve(request)

    async def describe_resource(self, request: web.Request) -> web.Response:
        usual = {"resource": f"{self.address}/mcp", "authorization_servers": [self.address]}
        return web.json_response({**usual, **self.resource})

    async def describe_server(self, request: web.Request) -> web.Response:
        usual = {
            "issuer": self.address,
            "authorization_endpoint": f"{self.address}/authorize?tenant=1",
            "token_endpoint": f"{self.address}/token",
            "registration_endpoint": f"{self.address}/register",
            "code_challenge_methods_supported": ["S256"],
        }
        return web.json_response({**usual, **self.metadata})

    async def register(self, request: web.Request) -> web.Response:
        self.registrations.append(await request.json())
        return web.json_response({"client_id": f"client-{len(self.registrations)}"}, status=201)

    async def authorize(self, request: web.Request) -> web.Response:
        query = dict(request.query)
        self.authorizations.append(query)
        code = f"code-{len(self.authorizations)}-secret"
        self._challenges[code] = query["code_challenge"]
        fields = {"code": code, "state": query["state"], **self.redirected}
        return web.Response(status=302, headers={"Location": f"{query['redirect_uri']}?{urlencode(fields)}"})

    async def token(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.forms.append(form)
        if refusal := self.refuse(form):
            return refusal
        if form["grant_type"] == "authorization_code":
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            assert self._challenges.pop(form["code"]) == base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        elif form["refresh_token"] not in self._refresh_tokens:
            return web.json_response({"error": "invalid_grant"}, status=400)
        else:
            self._refresh_tokens.remove(form["refresh_token"])  # each is good for once
        number = len(self.forms)
        self.valid.add(f"access-{number}-secret")
        self._refresh_tokens.add(f"refresh-{number}-secret")
        tokens = {"access_token": f"access-{number}-secret", "token_type": "bearer", "expires_in": self.expires_in}
        refresh = {"refresh_token": f"refresh-{number}-secret"} if self.can_refresh else {}
        return web.json_response({**tokens, **refresh})


@asynccontextmanager
async def login_server() -> AsyncIterator[LoginServer]:
    """Serve both servers at one address."""
    server = LoginServer()
    application = web.Application()
    application.router.add_route("*", "/mcp", server.mcp)
    application.router.add_get("/.well-known/oauth-protected-resource/mcp", server.describe_resource)
    application.router.add_get("/.well-known/oauth-authorization-server", server.describe_server)
    application.router.add_post("/register", server.register)
    application.router.add_get("/authorize", server.authorize)
    application.router.add_post("/token", server.token)
    async with serving(application) as server.address:
        yield server


class Browser:
    """A person with a browser who agrees to everything."""

    def __init__(self) -> None:
        self.pages: list[str] = []
        self.shown: list[tuple[int, str]] = []

    async def __call__(self, url: str) -> None:
        self.pages.append(url)
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            self.shown.append((response.status, await response.text()))
