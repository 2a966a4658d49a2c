"""The client over HTTP, in both eras, with a real server on the loopback interface."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from outrider.errors import McpClosedError, McpError
from outrider.mcp import http
from outrider.mcp.channel import CallProgress
from outrider.mcp.client import Client
from outrider.mcp.elicitation import Elicitation, ElicitationAnswer
from outrider.mcp.servers import HttpServer
from tests.mcp.http_server import HttpPeer, Message, error, events, peer, result
from tests.mcp.test_client import text_of

ERAS = ("modern", "legacy")


@asynccontextmanager
async def connected(server: HttpPeer, **options: Any) -> AsyncIterator[Client]:
    client = Client(HttpServer("peer", server.url, {"X-Key": "sesame-123"}), **options)
    try:
        await client.connect()
        yield client
    finally:
        await client.close()


async def until(condition: Any) -> None:
    """Wait for a condition."""
    while not condition():
        await asyncio.sleep(0.01)


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("form", ["json", "events"])
async def test_calls_a_tool(era: str, form: str) -> None:
    async with peer(era, form=form) as server, connected(server) as client:
        assert client.agreement is not None
        assert client.agreement.version == ("2026-07-28" if era == "modern" else "2025-11-25")
        assert json.loads(text_of(await client.call_tool("echo", {"text": "hällo\n"}))) == {"text": "hällo\n"}
        assert all(headers["x-key"] == "sesame-123" for headers, _ in server.posts)


async def test_stateless_requests_name_their_method_and_tool() -> None:
    async with peer("modern") as server, connected(server) as client:
        await client.call_tool("echo", {})
        [(headers, message)] = server.sent("tools/call")
        assert headers["mcp-protocol-version"] == "2026-07-28"
        assert (headers["mcp-method"], headers["mcp-name"]) == ("tools/call", "echo")
        assert "mcp-session-id" not in headers
        assert message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert set(server.verbs) == {"POST"}


async def test_marked_arguments_are_sent_as_headers_and_wrongly_marked_tools_are_left_out() -> None:
    async with peer("modern") as server, connected(server) as client:
        assert [tool.name for tool in await client.list_tools()] == ["echo", "routed"]
        assert "misrouted" in client.skipped["tools"][0]
        await client.call_tool("routed", {"region": "Zürich"})
        [(headers, _)] = server.sent("tools/call")
        assert headers["mcp-param-region"] == "=?base64?WsO8cmljaA==?="


async def test_a_session_is_named_in_every_request_and_ended() -> None:
    async with peer("legacy") as server:
        async with connected(server) as client:
            await client.list_tools()
            assert server.sessions == {"session-1"}
        [(greeting, _)] = server.sent("initialize")
        assert "mcp-session-id" not in greeting
        assert "mcp-protocol-version" not in greeting
        [(headers, _)] = server.sent("tools/list")
        assert (headers["mcp-session-id"], headers["mcp-protocol-version"]) == ("session-1", "2025-11-25")
        assert server.sessions == set()


async def test_a_session_that_the_server_lost_is_begun_again_once_for_all_requests() -> None:
    changes: list[str] = []
    async with peer("legacy") as server, connected(server, on_change=changes.append) as client:
        server.sessions.clear()
        results = await asyncio.gather(*(client.call_tool("echo", {"n": n}) for n in range(5)))
        assert [json.loads(text_of(each)) for each in results] == [{"n": n} for n in range(5)]
        assert len(server.sent("initialize")) == 2
        assert "tools" in changes  # the server may have other tools now


async def test_a_request_waits_for_the_new_session() -> None:
    renewing, release = asyncio.Event(), asyncio.Event()

    async def slowly(request: web.Request, message: Message) -> None:
        if len(server.sent("initialize")) == 2:
            renewing.set()
            await release.wait()

    async with peer("legacy", initialize=slowly) as server, connected(server) as client:
        server.sessions.clear()
        first = asyncio.create_task(client.call_tool("echo", {"n": 1}))
        await renewing.wait()
        second = asyncio.create_task(client.call_tool("echo", {"n": 2}))
        await asyncio.sleep(0.05)
        release.set()
        assert [json.loads(text_of(await each)) for each in (first, second)] == [{"n": 1}, {"n": 2}]


async def test_a_version_that_the_server_offers_is_tried(era: str) -> None:
    async def refuse_once(request: web.Request, message: Message) -> web.StreamResponse | None:
        if len(server.sent("server/discover")) > 1:
            return None
        offered = {"supported": ["2030-01-01", "2026-07-28"] if era == "modern" else ["2025-11-25"]}
        return web.json_response(error(message, -32022, "Unsupported protocol version", offered), status=400)

    async with peer(era, server__discover=refuse_once) as server, connected(server):
        assert len(server.sent("server/discover")) == (2 if era == "modern" else 1)
        assert len(server.sent("initialize")) == (0 if era == "modern" else 1)


async def test_a_session_that_is_lost_again_at_once_closes_the_channel() -> None:
    closed: list[Exception] = []

    async def forget(request: web.Request, message: Message) -> None:
        server.sessions.clear()

    async with peer("legacy", tools__call=forget) as server:
        async with connected(server, on_close=closed.append) as client:
            with pytest.raises(McpClosedError, match="lost the session"):
                await client.call_tool("echo", {})
        assert len(server.sent("tools/call")) == 2
        assert len(closed) == 1


async def test_messages_outside_of_requests_arrive_on_the_stream_of_the_session() -> None:
    changed = asyncio.Event()

    async def stream(request: web.Request, message: Message) -> web.StreamResponse:
        async with events(request) as send:
            await send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            await asyncio.sleep(3600)
        return send.response

    async with peer("legacy", GET=stream) as server, connected(server, on_change=lambda _: changed.set()):
        await changed.wait()


async def test_a_stateless_server_announces_changes_on_the_stream_of_a_request() -> None:
    changed = asyncio.Event()

    async def listen(request: web.Request, message: Message) -> web.StreamResponse:
        assert message["params"]["notifications"] == {"toolsListChanged": True}
        async with events(request) as send:
            await send({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged"})
            await send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            await asyncio.sleep(3600)
        return send.response

    async with (
        peer("modern", subscriptions__listen=listen) as server,
        connected(server, on_change=lambda _: changed.set()),
    ):
        await changed.wait()


async def test_progress_arrives_before_the_answer(era: str) -> None:
    async def call(request: web.Request, message: Message) -> web.StreamResponse:
        token = message["params"]["_meta"]["progressToken"]
        async with events(request) as send:
            for step in (1, 2):
                params = {"progressToken": token, "progress": step, "total": 2}
                await send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
            await send({"jsonrpc": "2.0", "id": message["id"], "result": result(era, message)})
        return send.response

    steps: list[CallProgress] = []
    async with peer(era, tools__call=call) as server, connected(server) as client:
        await client.call_tool("echo", {}, on_progress=steps.append)
    assert [(each.progress, each.total) for each in steps] == [(1, 2), (2, 2)]


async def test_a_question_of_the_server_is_answered_by_a_post() -> None:
    answered: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    async def call(request: web.Request, message: Message) -> web.StreamResponse:
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        params = {"message": "Who?", "requestedSchema": schema}
        async with events(request) as send:
            await send({"jsonrpc": "2.0", "id": "q1", "method": "elicitation/create", "params": params})
            await answered
            await send({"jsonrpc": "2.0", "id": message["id"], "result": result("legacy", message)})
        return send.response

    async def take(request: web.Request, message: Message) -> None:
        answered.set_result(message)

    async def ask(question: Elicitation) -> ElicitationAnswer:
        assert question.message == "Who?"
        return ElicitationAnswer("accept", {"name": "Ada"})

    async with peer("legacy", tools__call=call, answer=take) as server, connected(server, on_elicit=ask) as client:
        await client.call_tool("echo", {})
    sent = {"jsonrpc": "2.0", "id": "q1", "result": {"action": "accept", "content": {"name": "Ada"}}}
    assert answered.result() == sent


async def test_a_stream_that_ends_early_is_resumed_after_its_last_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_FIRST_PAUSE", 0.01)
    asked: list[str] = []

    async def call(request: web.Request, message: Message) -> web.StreamResponse:
        asked.append(message["id"])
        async with events(request) as send:
            await send(None, id="7")
        return send.response

    async def resume(request: web.Request, message: Message) -> web.StreamResponse | None:
        last = request.headers.get("last-event-id")
        if last is None:
            return None
        async with events(request) as send:
            if last == "7":
                await send(None, id="8")
            else:
                await send({"jsonrpc": "2.0", "id": asked[0], "result": {"content": []}}, id="9")
        return send.response

    async with peer("legacy", tools__call=call, GET=resume) as server, connected(server) as client:
        assert (await client.call_tool("echo", {})).content == []
        assert len(server.sent("tools/call")) == 1


async def test_a_stateless_stream_that_ends_early_is_an_error() -> None:
    async def call(request: web.Request, message: Message) -> web.StreamResponse:
        async with events(request) as send:
            await send(None, id="7")
        return send.response

    async with peer("modern", tools__call=call) as server, connected(server) as client:
        with pytest.raises(McpError, match="ended its response before it answered tools/call"):
            await client.call_tool("echo", {})
        assert "GET" not in server.verbs


async def test_cancelling_tells_the_server(era: str) -> None:
    started, gone = asyncio.Event(), asyncio.Event()

    async def call(request: web.Request, message: Message) -> web.StreamResponse:
        async with events(request):
            started.set()
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:  # the client has closed the stream
                gone.set()
                raise
        raise AssertionError

    async with peer(era, tools__call=call) as server, connected(server) as client:
        task = asyncio.create_task(client.call_tool("echo", {}))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await gone.wait()
        if era == "legacy":
            await until(lambda: server.sent("notifications/cancelled"))
            [(_, cancelled)] = server.sent("notifications/cancelled")
            assert cancelled["params"]["requestId"] == server.sent("tools/call")[0][1]["id"]
        else:
            assert not server.sent("notifications/cancelled")


async def test_the_error_in_the_body_of_a_refusal_keeps_its_code(era: str) -> None:
    async def call(request: web.Request, message: Message) -> web.StreamResponse:
        return web.json_response(error(message, -32602, "Unknown tool: echo"), status=400)

    async with peer(era, tools__call=call) as server, connected(server) as client:
        with pytest.raises(McpError, match="refused tools/call: Unknown tool: echo") as caught:
            await client.call_tool("echo", {})
        assert caught.value.code == -32602


async def test_a_redirect_within_the_host_is_followed_once_for_all(era: str) -> None:
    async def moved(request: web.Request, message: Message) -> web.StreamResponse | None:
        return web.Response(status=308, headers={"Location": "/mcp"}) if request.query else None

    async with peer(era, server__discover=moved) as server:
        server.url += "?moved=1"
        async with connected(server) as client:
            await client.call_tool("echo", {})
        assert len(server.sent("server/discover")) == 2
        assert len(server.sent("tools/call")) == 1
