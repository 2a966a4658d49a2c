"""The transport of 2024-11-05: used when the newer one is refused, and as distrustful as that."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from outrider.errors import McpClosedError, McpError
from outrider.mcp.client import Client
from outrider.mcp.elicitation import Elicitation, ElicitationAnswer
from outrider.mcp.servers import HttpServer
from tests.mcp.starting import connected, limited, text_of


class SsePeer:
    """A server with one stream of events, and an address for messages that its first event names."""

    def __init__(self, endpoint: str = "/messages?session=1") -> None:
        self.endpoint = endpoint
        self.url = ""
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.posted: list[dict[str, Any]] = []
        self.asked = asyncio.Event()
        self.answers: list[dict[str, Any]] = []

    def say(self, message: dict[str, Any] | None) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() if message is not None else None
        self.queue.put_nowait(None if line is None else b"event: message\r\ndata: %b\r\n\r\n" % line)

    async def stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"event: endpoint\r\ndata: %b\r\n\r\n" % self.endpoint.encode())
        while (piece := await self.queue.get()) is not None:
            await response.write(piece)
        return response

    async def message(self, request: web.Request) -> web.Response:
        message = await request.json()
        self.posted.append(message)
        number, method = message.get("id"), message.get("method")
        if method == "initialize":
            info = {"name": "old", "version": "1"}
            agreed = {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": info}
            self.say({"id": number, "result": agreed})
        elif method == "tools/list":
            self.say({"id": number, "result": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}})
        elif method == "tools/call":
            await self.call(number, message["params"]["arguments"])
        elif method is None:
            self.answers.append(message)
            self.asked.set()
        return web.Response(status=202, text="Accepted")

    async def call(self, number: Any, arguments: dict[str, Any]) -> None:
        match arguments:
            case {"text": "end"}:
                self.say(None)
            case {"text": "ask"}:
                wanted = {"type": "object", "properties": {}}
                self.say(
                    {"id": 7, "method": "elicitation/create", "params": {"message": "?", "requestedSchema": wanted}}
                )
            case {"size": size}:
                self.say({"id": number, "result": {"content": [{"type": "text", "text": "x" * size}]}})
                return
            case {"text": text}:
                self.say({"id": number, "result": {"content": [{"type": "text", "text": text}]}})


@asynccontextmanager
async def serving(peer: SsePeer) -> AsyncIterator[HttpServer]:
    app = web.Application()
    app.router.add_get("/sse", peer.stream)
    app.router.add_post("/messages", peer.message)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        yield HttpServer("old", f"http://{host}:{port}/sse", timeout=60, startup_timeout=60)
    finally:
        peer.say(None)
        await runner.cleanup()


async def test_a_server_that_refuses_messages_is_spoken_to_over_its_stream() -> None:
    peer = SsePeer()
    async with serving(peer) as server, connected(server) as client:
        assert client.agreement
        assert client.agreement.version == "2024-11-05"
        assert [tool.name for tool in await client.list_tools()] == ["echo"]
        found = await asyncio.gather(*(client.call_tool("echo", {"text": str(n)}) for n in range(5)))
    assert [text_of(each) for each in found] == ["0", "1", "2", "3", "4"]
    assert "notifications/initialized" in [message.get("method") for message in peer.posted]


async def test_a_question_is_answered_with_a_message() -> None:
    async def answer(question: Elicitation) -> ElicitationAnswer:
        return ElicitationAnswer("decline")

    peer = SsePeer()
    async with serving(peer) as server, connected(server, on_elicit=answer) as client:
        call = asyncio.ensure_future(client.call_tool("echo", {"text": "ask"}))
        await peer.asked.wait()
        call.cancel()
    assert peer.answers == [{"jsonrpc": "2.0", "id": 7, "result": {"action": "decline"}}]


async def test_a_stream_that_ends_ends_the_open_requests() -> None:
    lost: list[Exception] = []
    async with serving(SsePeer()) as server, connected(server, on_close=lost.append) as client:
        with pytest.raises(McpClosedError, match="ended its stream"):
            await client.call_tool("echo", {"text": "end"})
    assert len(lost) == 1


@pytest.mark.parametrize("elsewhere", ["http://example.org/messages", "//example.org/x", "", "http://[", "ftp://a"])
async def test_messages_do_not_go_to_another_host(elsewhere: str) -> None:
    async with serving(SsePeer(elsewhere)) as server:
        client = Client(HttpServer("peer", server.url, startup_timeout=2.0))  # an empty address is waited for
        with pytest.raises(McpError, match="status 405"):
            await client.connect()
        await client.close()


async def test_a_result_over_the_limit_ends_the_connection() -> None:
    async with (
        serving(SsePeer()) as server,
        connected(server, host=limited(message_bytes=10_000)) as client,
    ):
        assert len(text_of(await client.call_tool("echo", {"size": 5_000}))) == 5_000
        with pytest.raises(McpError, match=r"more than 9\.8 KiB"):
            await client.call_tool("echo", {"size": 50_000})
