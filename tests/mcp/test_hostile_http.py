"""HTTP servers that hang, flood, lie and redirect: each is one error, without a hang and within bounded memory."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp import web

from outrider.errors import McpClosedError, McpError, McpLoginError, McpTimeoutError
from outrider.mcp.client import Client
from outrider.mcp.endpoint import redirect_target
from outrider.mcp.pool import ServerPool
from outrider.mcp.server_limits import Restarts, ServerHost
from outrider.mcp.servers import HttpServer
from tests.mcp.http_server import Message, events, peer, result, serving, silence
from tests.mcp.starting import limited
from tests.mcp.test_client import text_of
from tests.mcp.test_http import connected

KEY = "sesame-123"
SMALL = limited(message_bytes=100_000, stray_messages=200)


@pytest.fixture(params=("modern", "legacy"))
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_a_server_that_never_answers_a_call_times_out(era: str) -> None:
    async with peer(era, tools__call=silence) as server:
        client = Client(HttpServer("peer", server.url, timeout=0.3))
        await client.connect()
        with pytest.raises(McpTimeoutError, match=r"did not answer tools/call within 0\.3 seconds"):
            await client.call_tool("echo", {})
        assert len(await client.list_tools()) >= 2  # other requests go on
        await client.close()


async def test_a_server_that_answers_nothing_at_all_cannot_delay_closing() -> None:
    async with peer("modern", server__discover=silence, initialize=silence) as server:
        client = Client(HttpServer("peer", server.url, startup_timeout=0.3))
        with pytest.raises(McpTimeoutError):
            await client.connect()


async def test_a_server_that_does_not_end_the_session_cannot_delay_closing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrider.mcp.http._CLOSE_SECONDS", 0.1)
    async with peer("legacy", DELETE=silence) as server:
        client = Client(HttpServer("peer", server.url))
        await client.connect()
        await client.close()
        assert "DELETE" in server.verbs


async def test_a_second_answer_is_ignored(era: str) -> None:
    async def twice(request: web.Request, message: Message) -> web.StreamResponse:
        async with events(request) as send:
            for text in ("first", "second"):
                found = {"content": [{"type": "text", "text": text}]}
                await send({"jsonrpc": "2.0", "id": message["id"], "result": found})
        return send.response

    async with peer(era, tools__call=twice) as server, connected(server) as client:
        assert text_of(await client.call_tool("echo", {})) == "first"
        assert text_of(await client.call_tool("echo", {})) == "first"


async def test_an_answer_to_another_request_is_an_error(era: str) -> None:
    async def other(request: web.Request, message: Message) -> web.StreamResponse:
        return web.json_response({"jsonrpc": "2.0", "id": message["id"] + 1000, "result": {}})

    async with peer(era, tools__call=other) as server, connected(server) as client:
        with pytest.raises(McpError, match="ended its response before it answered tools/call"):
            await client.call_tool("echo", {})


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_an_endless_answer_ends_at_the_limit(kind: str) -> None:
    sent = 0

    async def endless(request: web.Request, message: Message) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse(headers={"Content-Type": kind})
        await response.prepare(request)
        await response.write(b'data: {"jsonrpc":"2.0","id":1,"result":"' if "event" in kind else b'{"result":"')
        while True:
            await response.write(b"x" * 10_000)
            sent += 10_000

    async with (
        peer("modern", tools__call=endless) as server,
        connected(server, host=SMALL) as client,
    ):
        with pytest.raises(McpError, match="sent a message of more than"):
            await client.call_tool("echo", {})
    assert sent < 20_000_000  # what fits into the buffers of the sockets


async def test_a_compressed_answer_is_limited_by_its_real_size() -> None:
    async def bomb(request: web.Request, message: Message) -> web.StreamResponse:
        response = web.json_response(text='{"result": "' + "x" * 5_000_000 + '"}')
        response.enable_compression(web.ContentCoding.gzip)
        return response

    async with peer("modern", tools__call=bomb) as server, connected(server, host=SMALL) as client:
        with pytest.raises(McpError, match="sent a message of more than"):
            await client.call_tool("echo", {})


async def test_pings_whose_answers_are_not_taken_do_not_pile_up() -> None:
    async def ping(request: web.Request, message: Message) -> web.StreamResponse:
        async with events(request) as send:
            for number in range(150):
                await send({"jsonrpc": "2.0", "id": number, "method": "ping"})
            await send({"jsonrpc": "2.0", "id": message["id"], "result": result("legacy", message)})
        return send.response

    host = limited(answers=5)
    async with (
        peer("legacy", tools__call=ping, answer=silence) as server,
        connected(server, host=host) as client,
    ):
        assert text_of(await client.call_tool("echo", {"a": 1})) == '{"a": 1}'
        assert len([message for _, message in server.posts if "method" not in message]) <= 5


async def test_endless_notifications_close_the_channel(era: str) -> None:
    async def flood(request: web.Request, message: Message) -> web.StreamResponse:
        async with events(request) as send:
            while True:
                await send({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x"}})
                await asyncio.sleep(0)
        raise AssertionError

    closed: list[Exception] = []
    async with (
        peer(era, tools__call=flood) as server,
        connected(server, host=SMALL, on_close=closed.append) as client,
    ):
        with pytest.raises(McpError, match="too many messages that answer nothing"):
            await client.call_tool("echo", {})
        assert len(closed) == 1


@pytest.mark.parametrize(
    ("body", "headers", "told"),
    [
        ("<html>Welcome</html>", {"Content-Type": "text/html"}, "answered tools/call with text/html, not JSON"),
        ("", {}, "answered tools/call with nothing, not JSON"),
        ("not json", {"Content-Type": "application/json"}, "ended its response before it answered"),
        ("[]", {"Content-Type": "application/json"}, "ended its response before it answered"),
        ("data: nonsense\n\n", {"Content-Type": "text/event-stream"}, "ended its response before it answered"),
    ],
)
async def test_answers_of_the_wrong_kind_are_errors(body: str, headers: Mapping[str, str], told: str) -> None:
    async def wrong(request: web.Request, message: Message) -> web.StreamResponse:
        return web.Response(body=body.encode(), headers=headers)

    async with peer("modern", tools__call=wrong) as server, connected(server) as client:
        with pytest.raises(McpError, match=told):
            await client.call_tool("echo", {})
        assert len(await client.list_tools()) >= 2


async def test_an_error_page_is_shown_without_keys_and_control_characters() -> None:
    async def fail(request: web.Request, message: Message) -> web.StreamResponse:
        return web.Response(status=500, text=f"\x1b[31mYour key {request.headers['x-key']} is\nbad " + "x" * 5000)

    async with peer("modern", tools__call=fail) as server, connected(server) as client:
        with pytest.raises(McpError) as caught:
            await client.call_tool("echo", {})
    said = "It said: ⟨ESC⟩[31mYour key … is bad xxx"
    assert str(caught.value).startswith(f"The MCP server peer answered with status 500. {said}")
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_to_another_host_is_not_followed(status: int) -> None:
    reached: list[str] = []

    async def elsewhere(request: web.Request) -> web.StreamResponse:
        reached.append(request.path)
        return web.Response()

    other = web.Application()
    other.router.add_route("*", "/{path:.*}", elsewhere)
    async with serving(other) as address, peer("modern") as server, connected(server) as client:

        async def away(request: web.Request, message: Message) -> web.StreamResponse:
            return web.Response(status=status, headers={"Location": f"{address}/mcp"})

        server.hooks["tools/call"] = away
        with pytest.raises(McpError, match=r"which is not followed\. If you trust that address, configure it"):
            await client.call_tool("echo", {})
    assert reached == []


async def test_a_redirect_in_circles_ends() -> None:
    async def circle(request: web.Request, message: Message) -> web.StreamResponse:
        place = "/mcp?b" if request.query_string == "a" else "/mcp?a"
        return web.Response(status=307, headers={"Location": place})

    async with peer("modern", tools__call=circle) as server, connected(server) as client:
        with pytest.raises(McpError, match="redirects to /mcp"):
            await client.call_tool("echo", {})
        assert len(server.sent("tools/call")) <= 6


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/mcp/", "https://example.org/mcp/"),
        ("https://example.org/other", "https://example.org/other"),
        ("http://example.org/mcp/", None),
        ("https://example.org:8443/mcp", None),
        ("https://example.com/mcp", None),
        ("https://user:word@example.org/mcp/", None),
        ("//example.com/mcp", None),
        ("", None),
        ("https://example.org/mcp", None),
        ("https://[bad", None),
    ],
)
def test_only_redirects_within_the_host_are_followed(location: str, target: str | None) -> None:
    assert redirect_target("https://example.org/mcp", location) == target


async def test_a_server_that_refuses_access_needs_a_login(era: str) -> None:
    async def refuse(request: web.Request, message: Message) -> web.StreamResponse:
        return web.Response(status=401, headers={"WWW-Authenticate": "Bearer"})

    async with peer(era, server__discover=refuse, initialize=refuse) as server:
        client = Client(HttpServer("peer", server.url))
        with pytest.raises(McpLoginError, match=r"Log in with `outrider mcp login peer`"):
            await client.connect()
        assert len(server.posts) == 1  # the other era would be refused as well


async def test_a_server_that_needs_a_login_is_not_started_again_and_again() -> None:
    async def refuse(request: web.Request, message: Message) -> web.StreamResponse:
        return web.Response(status=401)

    notices: list[str] = []
    async with peer("modern", server__discover=refuse) as server:
        quick = ServerHost(restarts=Restarts(first_pause=0))
        pool = ServerPool([HttpServer("peer", server.url)], on_notice=notices.append, host=quick)
        pool.start()
        await pool.settled()
        assert [status.state for status in pool.statuses()] == ["failed"]
        await pool.close()
        assert len(server.posts) == len(notices) == 1
    assert "outrider mcp login peer" in notices[0]


class Stubborn:
    """An authorization that always has another token."""

    def __init__(self) -> None:
        self.tokens = 0

    async def headers(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer token-{self.tokens}"}

    async def challenged(self, status: int, www_authenticate: str | None) -> bool:
        self.tokens += 1
        return True


async def test_a_server_that_refuses_every_token_is_asked_a_few_times_only() -> None:
    async def refuse(request: web.Request, message: Message) -> web.StreamResponse:
        return web.Response(status=401, text=f"I saw {request.headers['authorization']}")

    async with peer("modern", server__discover=refuse) as server:
        client = Client(HttpServer("peer", server.url), authorization=Stubborn())
        with pytest.raises(McpLoginError, match="refused access"):
            await client.connect()
        assert 2 <= len(server.posts) <= 6


async def test_a_server_that_is_not_there_is_an_error_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        client = Client(HttpServer("peer", f"http://127.0.0.1:{taken.getsockname()[1]}/mcp"))
        with pytest.raises(McpClosedError, match="cannot be reached"):
            await client.connect()


async def test_a_server_that_hangs_up_is_an_error(era: str) -> None:
    async def hang_up(request: web.Request, message: Message) -> Any:
        assert request.transport is not None
        request.transport.abort()
        await asyncio.sleep(3600)

    async with peer(era, tools__call=hang_up) as server, connected(server) as client:
        with pytest.raises(McpError, match="The MCP server peer failed"):
            await client.call_tool("echo", {})
        assert len(server.sent("tools/call")) == 1  # a call may have an effect: it is not repeated
        assert len(await client.list_tools()) >= 2


@pytest.mark.parametrize("value", ["one\r\nX-Other: two", "bell\x07"])
async def test_a_header_with_control_characters_is_refused_without_showing_it(value: str) -> None:
    client = Client(HttpServer("peer", "http://127.0.0.1:9/mcp", {"X-Key": value}))
    with pytest.raises(McpError, match="characters that a header cannot have") as caught:
        await client.connect()
    assert value not in str(caught.value)


async def test_too_many_questions_at_once_are_refused() -> None:
    release = asyncio.Event()

    async def call(request: web.Request, message: Message) -> web.StreamResponse:
        async with events(request) as send:
            for number in range(100):
                await send({"jsonrpc": "2.0", "id": number, "method": "elicitation/create", "params": {"message": "?"}})
            await release.wait()
            await send({"jsonrpc": "2.0", "id": message["id"], "result": result("legacy", message)})
        return send.response

    async def ask(_: Any) -> Any:
        await asyncio.sleep(3600)

    async with peer("legacy", tools__call=call) as server, connected(server, on_elicit=ask) as client:
        task = asyncio.create_task(client.call_tool("echo", {}))
        while sum("error" in message for _, message in server.posts) < 84:
            await asyncio.sleep(0.01)
        release.set()
        await task
