"""Logins to MCP servers: what is asked, kept, refreshed and refused."""

from __future__ import annotations

import asyncio
import json
import stat
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
from aiohttp import web

from outrider.errors import McpError, McpLoginError
from outrider.mcp.client import Client
from outrider.mcp.oauth import OAuth
from outrider.mcp.oauth_discovery import Challenge, OAuthRequests, covers, parse_challenge
from outrider.mcp.servers import HttpServer
from outrider.mcp.tokens import FILE, ClientCredentials, Login, Registration, Tokens, TokenStore
from tests.mcp.login_server import Browser, LoginServer, login_server


@asynccontextmanager
async def connected(server: LoginServer, folder: Path, **options: Any) -> AsyncIterator[Client]:
    description = HttpServer("peer", f"{server.address}/mcp")
    client = Client(description, authorization=OAuth(description, TokenStore(folder), **options))
    try:
        await client.connect()
        yield client
    finally:
        await client.close()


async def log_in(server: LoginServer, folder: Path, **options: Any) -> Browser:
    browser = Browser()
    async with connected(server, folder, open_url=browser, **options) as client:
        await client.call_tool("echo", {})
    return browser


async def test_a_login_is_kept_for_the_owner_alone_and_used_again(tmp_path: Path) -> None:
    async with login_server() as server:
        browser = await log_in(server, tmp_path)
        assert [status for status, _ in browser.shown] == [200]
        assert "You are logged in" in browser.shown[0][1]
        async with connected(server, tmp_path) as client:  # without a browser
            await client.call_tool("echo", {})
        assert len(browser.pages) == len(server.registrations) == 1
    file = tmp_path / FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "access-1-secret" in file.read_text()


async def test_the_login_names_the_resource_the_scope_and_a_challenge(tmp_path: Path) -> None:
    async with login_server() as server:
        await log_in(server, tmp_path)
        [asked], [form], [client] = server.authorizations, server.forms, server.registrations
    assert asked["resource"] == form["resource"] == f"{server.address}/mcp"
    assert (asked["scope"], asked["tenant"], asked["code_challenge_method"]) == ("read", "1", "S256")
    assert client["redirect_uris"] == [asked["redirect_uri"]] == [form["redirect_uri"]]
    assert urlsplit(asked["redirect_uri"]).hostname == "127.0.0.1"
    assert client["application_type"] == "native"


async def test_without_a_browser_the_error_says_what_to_do(tmp_path: Path) -> None:
    async with login_server() as server:
        with pytest.raises(McpLoginError, match="Log in with `outrider mcp login peer`"):
            async with connected(server, tmp_path):
                pass
        assert not server.authorizations


async def test_a_token_at_its_end_is_refreshed_and_the_new_one_kept(tmp_path: Path) -> None:
    async with login_server() as server:
        server.expires_in = 1  # less than the time before its end at which a token is refreshed
        await log_in(server, tmp_path)
        server.expires_in = 3600
        async with connected(server, tmp_path) as client:
            await client.call_tool("echo", {})
        last = server.forms[-1]
        assert last["grant_type"] == "refresh_token"
        assert last["resource"] == f"{server.address}/mcp"
        kept = TokenStore(tmp_path).read(f"{server.address}/mcp")
        assert kept is not None
        assert kept.tokens is not None
        assert kept.tokens.refresh_token == f"refresh-{len(server.forms)}-secret"
        assert (kept.tokens.expires_at or 0) > time.time() + 3000


async def test_a_token_that_the_server_refuses_is_refreshed(tmp_path: Path) -> None:
    async with login_server() as server:
        await log_in(server, tmp_path)
        async with connected(server, tmp_path) as client:
            server.valid.clear()
            calls = (client.call_tool("echo", {"n": n}) for n in range(5))
            await asyncio.gather(*calls)
        assert [form["grant_type"] for form in server.forms] == ["authorization_code", "refresh_token"]


async def test_two_processes_do_not_use_one_refresh_token(tmp_path: Path) -> None:
    async with login_server() as server:
        await log_in(server, tmp_path)
        async with connected(server, tmp_path) as first, connected(server, tmp_path) as second:
            server.valid.clear()
            await asyncio.gather(first.call_tool("echo", {}), second.call_tool("echo", {}))
        assert [form["grant_type"] for form in server.forms] == ["authorization_code", "refresh_token"]


async def test_a_refresh_token_that_is_refused_is_not_used_again(tmp_path: Path) -> None:
    async with login_server() as server:
        await log_in(server, tmp_path)
        server.refuse = lambda form: (
            web.json_response({"error": "invalid_grant"}, status=400) if "refresh_token" in form else None
        )
        server.valid.clear()
        for _ in range(2):
            with pytest.raises(McpLoginError, match="outrider mcp login"):
                async with connected(server, tmp_path):
                    pass
        assert len([form for form in server.forms if "refresh_token" in form]) == 1
        await log_in(server, tmp_path)  # with the client that is registered already
        assert len(server.registrations) == 1


@pytest.mark.parametrize("can_refresh", [True, False])
async def test_a_server_that_refuses_new_tokens_does_not_open_the_browser_again(
    tmp_path: Path, can_refresh: bool
) -> None:
    browser = Browser()
    async with login_server() as server:
        server.can_refresh = can_refresh
        server.valid = Forgetful()
        with pytest.raises(McpLoginError):
            async with connected(server, tmp_path, open_url=browser):
                pass
    assert len(browser.pages) == 1


class Forgetful(set[str]):
    """Tokens that are never valid."""

    def add(self, token: str) -> None:
        return


async def test_the_time_of_a_request_does_not_run_while_a_person_logs_in(tmp_path: Path) -> None:
    browser = Browser()

    async def slowly(url: str) -> None:
        await asyncio.sleep(1)
        await browser(url)

    async with login_server() as server:
        description = HttpServer("peer", f"{server.address}/mcp", startup_timeout=0.4)
        client = Client(description, authorization=OAuth(description, TokenStore(tmp_path), open_url=slowly))
        await client.connect()
        await client.close()


async def test_a_redirect_with_another_state_does_not_end_the_login(tmp_path: Path) -> None:
    browser = Browser()

    async def attacked(url: str) -> None:
        target = parse_qs(urlsplit(url).query)["redirect_uri"][0]
        async with aiohttp.ClientSession() as session:
            for query in ("?code=evil", "?code=evil&state=guess", "?error=access_denied&state=x"):
                async with session.get(target + query) as response:
                    assert response.status == 404
        await browser(url)

    async with login_server() as server, connected(server, tmp_path, open_url=attacked) as client:
        await client.call_tool("echo", {})
        assert server.forms[0]["code"] == "code-1-secret"


async def test_a_person_who_refuses_ends_the_login(tmp_path: Path) -> None:
    async with login_server() as server:
        server.redirected = {"error": "access_denied", "error_description": "No\x1b[31m thanks"}

        async def refuse(url: str) -> None:
            query = parse_qs(urlsplit(url).query)
            fields = f"?error=access_denied&error_description=No%1b[31m+thanks&state={query['state'][0]}"
            async with aiohttp.ClientSession() as session, session.get(query["redirect_uri"][0] + fields):
                pass

        with pytest.raises(McpLoginError, match=r"The login failed: access_denied: No⟨ESC⟩\[31m thanks"):
            async with connected(server, tmp_path, open_url=refuse):
                pass


async def test_a_login_that_nobody_finishes_ends(tmp_path: Path) -> None:
    async def ignore(url: str) -> None:
        return

    async with login_server() as server:
        with pytest.raises(McpLoginError, match="was not finished within"):
            async with connected(server, tmp_path, open_url=ignore, login_seconds=0.1):
                pass


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("metadata", {"issuer": "https://evil.example"}, "says that it is https://evil.example"),
        ("metadata", {"code_challenge_methods_supported": ["plain"]}, r"does not support PKCE \(S256\)"),
        ("metadata", {"authorization_endpoint": "javascript:alert(1)"}, "is not an https address"),
        ("metadata", {"authorization_endpoint": "file:///etc/passwd"}, "is not an https address"),
        ("metadata", {"token_endpoint": "ftp://127.0.0.1/token"}, "is not an https address"),
        ("metadata", {"registration_endpoint": ""}, "accepts registered clients only"),
        ("resource", {"resource": "https://bank.example/mcp"}, "asks for tokens of another one, https://bank.example"),
        ("resource", {"authorization_servers": []}, "names no authorization server"),
        ("resource", {"authorization_servers": ["https:///x"]}, "is not the address of a server"),
        ("redirected", {"iss": "https://evil.example"}, "came from another authorization server"),
    ],
)
async def test_servers_that_lie_about_themselves_are_refused(tmp_path: Path, field: str, value: Any, told: str) -> None:
    browser = Browser()
    async with login_server() as server:
        setattr(server, field, value)
        with pytest.raises(McpLoginError, match=told):
            async with connected(server, tmp_path, open_url=browser):
                pass
        assert not server.forms  # no code was sent anywhere
        assert len(browser.pages) == (1 if field == "redirected" or "token_endpoint" in value else 0)


async def test_errors_do_not_show_codes_tokens_or_secrets(tmp_path: Path) -> None:
    client = Registration("me", "client-secret-value", "client_secret_post")

    def echo(form: Any) -> web.Response:
        return web.json_response({"error": "bad", "error_description": json.dumps(dict(form))}, status=400)

    async with login_server() as server:
        server.refuse = echo
        with pytest.raises(McpLoginError, match="The login failed") as caught:
            await log_in(server, tmp_path, client=client)
        assert "bad" in str(caught.value)
        for secret in ("code-1-secret", server.forms[0]["code_verifier"], "client-secret-value"):
            assert secret not in str(caught.value)
        assert not server.registrations
    assert "client-secret-value" not in repr(client)
    assert "access" not in repr(Tokens("access-secret", "refresh-secret"))


async def test_the_client_of_another_authorization_server_is_not_used(tmp_path: Path) -> None:
    async with login_server() as server:
        with pytest.raises(McpLoginError, match=r"is registered at https://other\.example"):
            await log_in(server, tmp_path, client=Registration("me", issuer="https://other.example"))
        url = f"{server.address}/mcp"
        stranger = Registration("stranger", redirect_uri="http://127.0.0.1:9/callback", issuer="https://other.example")
        old = Login("https://other.example", "https://other.example/token", url, stranger, Tokens("old", "old-refresh"))
        TokenStore(tmp_path).write(url, old)
        await log_in(server, tmp_path)
        assert [each["client_id"] for each in server.authorizations] == ["client-1"]
        assert "old-refresh" not in str(server.forms)


async def test_a_public_server_cannot_send_the_login_to_private_addresses() -> None:
    requests = OAuthRequests("https://8.8.8.8/mcp")
    with pytest.raises(McpLoginError, match="is not a public address"):
        await requests.get("https://127.0.0.1/.well-known/oauth-authorization-server", dict)
    with pytest.raises(McpLoginError, match="is not an https address"):
        await requests.get("http://8.8.8.8/", dict)
    with pytest.raises(McpLoginError, match=r"127\.0\.0\.1 is this machine's own"):
        await requests.get("https://localhost:9/", dict)
    await requests.close()


async def test_a_program_gets_a_token_by_itself(tmp_path: Path) -> None:
    async with login_server() as server:
        description = HttpServer("peer", f"{server.address}/mcp")
        server.metadata = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}

        def grant(form: Any) -> web.Response:
            assert form["client_secret"] == "word-word"
            server.valid.add("machine-token")
            return web.json_response({"access_token": "machine-token", "token_type": "Bearer"})

        server.refuse = grant
        client = Client(description, authorization=ClientCredentials(description, Registration("me", "word-word")))
        await client.connect()
        await client.close()
        assert [form["grant_type"] for form in server.forms] == ["client_credentials"]


def test_a_damaged_file_of_logins_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"x": {"issuer": 3')
    with pytest.raises(McpError, match="Remove the file and log in again"):
        TokenStore(tmp_path).read("x")
    assert (tmp_path / FILE).read_text().startswith('{"x"')


def test_a_login_can_be_removed(tmp_path: Path) -> None:
    store = TokenStore(tmp_path / "new")
    login = Login("https://as.example", "https://as.example/token", "u", Registration("me"))
    store.write("u", login)
    store.write("v", login)
    assert (store.remove("u"), store.remove("u")) == (True, False)
    assert (store.read("u"), store.read("v")) == (None, login)


@pytest.mark.parametrize(
    ("header", "challenge"),
    [
        (None, Challenge()),
        ("Basic realm=x", Challenge()),
        ("Bearer", Challenge()),
        ('bearer scope="a b", error=invalid_token', Challenge("invalid_token", "a b")),
        ('Basic realm="Bearer x", Bearer resource_metadata="https://e.org/m"', Challenge("", "", "https://e.org/m")),
        ('Bearer scope="a \\"b"', Challenge("", 'a "b')),
        ('Bearer scope="unfinished', Challenge()),
        ("Bearer " + "a=b," * 100_000, Challenge()),
    ],
)
def test_challenges_are_read(header: str | None, challenge: Challenge) -> None:
    assert parse_challenge(header) == challenge


@pytest.mark.parametrize(
    ("resource", "is_covered"),
    [
        ("https://example.org/mcp", True),
        ("https://EXAMPLE.org/", True),
        ("https://example.org", True),
        ("https://example.org/mc", False),
        ("https://example.org/mcp/more", False),
        ("http://example.org/mcp", False),
        ("https://example.org:444/mcp", False),
        ("https://[", False),
    ],
)
def test_a_resource_covers_the_server_at_or_below_it(resource: str, is_covered: bool) -> None:
    assert covers(resource, "https://example.org/mcp") is is_covered
