"""An MCP server on the loopback interface: it speaks HTTP of either era, and misbehaves where a test says so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from aiohttp import web

Message: TypeAlias = dict[str, Any]
Hook: TypeAlias = Callable[[web.Request, Message], Awaitable[web.StreamResponse | None]]
"""Answers a request in place of the server; None for the usual answer."""

TOOLS = [
    {"name": "echo", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}},
    {
        "name": "routed",
        "inputSchema": {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}},
    },
    {
        "name": "misrouted",
        "inputSchema": {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Two Words"}}},
    },
]


class HttpPeer:
    """A server of one era. `hooks` answer methods in place of it, or the verbs GET and DELETE."""

    def __init__(self, era: str = "legacy", *, form: str = "json", hooks: Mapping[str, Hook] | None = None) -> None:
        self.era = era
        self.form = form
        self.hooks = dict(hooks or {})
        self.posts: list[tuple[Mapping[str, str], Message]] = []
        """The headers, in lower case, and the message of each POST."""
        self.verbs: list[str] = []
        self.sessions: set[str] = set()
        self.url = ""

    def sent(self, method: str) -> list[tuple[Mapping[str, str], Message]]:
        """Return the POSTs of a method."""
        return [each for each in self.posts if each[1].get("method") == method]

    async def serve(self, request: web.Request) -> web.StreamResponse:
        self.verbs.append(request.method)
        session = request.headers.get("mcp-session-id", "")
        if request.method != "POST":
            hook = self.hooks.get(request.method)
            if hook and (answer := await hook(request, {})):
                return answer
            is_known = request.method == "DELETE" and session in self.sessions
            self.sessions.discard(session if is_known else "")
            return web.Response(status=200 if is_known else 405)
        message = json.loads(await request.read())
        self.posts.append(({name.lower(): value for name, value in request.headers.items()}, message))
        hook = self.hooks.get(message.get("method", "answer"))
        if hook and (answer := await hook(request, message)):
            return answer
        if "id" not in message or "method" not in message:
            return web.Response(status=202)
        return await self._answer(request, message, session)

    async def _answer(self, request: web.Request, message: Message, session: str) -> web.StreamResponse:
        method = message["method"]
        headers = {}
        if self.era == "modern" and method == "initialize":
            return web.json_response(error(message, -32601, "no such method"), status=404)
        if self.era == "legacy":
            if method == "initialize":
                session = f"session-{len(self.sent('initialize'))}"
                self.sessions.add(session)
                headers = {"Mcp-Session-Id": session}
            elif session not in self.sessions:
                status = 404 if session else 400
                return web.json_response(error({"id": None}, -32000, "Bad Request: Not initialized"), status=status)
        found = result(self.era, message)
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": found} if found is not None else None
        if answer is None:
            return web.json_response(error(message, -32601, "no such method"), status=200)
        if self.form == "json":
            return web.json_response(answer, headers=headers)
        async with events(request, headers) as send:
            await send(answer)
        return send.response


def result(era: str, message: Message) -> Any:
    """Return the usual result of a request; None for unknown methods."""
    capabilities = {"tools": {"listChanged": True}}
    match message["method"]:
        case "server/discover" if era == "modern":
            return {"supportedVersions": ["2026-07-28"], "capabilities": capabilities}
        case "initialize" if era == "legacy":
            info = {"name": "peer", "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            text = json.dumps(message["params"]["arguments"])
            return {"content": [{"type": "text", "text": text}]}
    return None


def error(message: Message, code: int, text: str, data: Any = None) -> Message:
    return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": text, "data": data}}


class Events:
    """Sends events to one response."""

    def __init__(self, response: web.StreamResponse) -> None:
        self.response = response

    async def __call__(self, message: Any, id: str = "") -> None:
        head = f"id: {id}\n" if id else ""
        await self.response.write(f"{head}data: {json.dumps(message) if message else ''}\n\n".encode())


@asynccontextmanager
async def events(request: web.Request, headers: Mapping[str, str] = {}) -> AsyncIterator[Events]:
    """Answer with a stream of events."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **headers})
    await response.prepare(request)
    yield Events(response)
    await response.write_eof()


@asynccontextmanager
async def serving(application: web.Application) -> AsyncIterator[str]:
    """Serve an application on a free port; yields its address."""
    runner = web.AppRunner(application, handle_signals=False, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def peer(era: str = "legacy", *, form: str = "json", **hooks: Hook) -> AsyncIterator[HttpPeer]:
    """Serve a peer. In the names of hooks, `__` is a slash."""
    made = HttpPeer(era, form=form, hooks={name.replace("__", "/"): hook for name, hook in hooks.items()})
    application = web.Application(client_max_size=64 * 1024 * 1024)
    application.router.add_route("*", "/mcp", made.serve)
    async with serving(application) as address:
        made.url = f"{address}/mcp"
        yield made


async def silence(request: web.Request, message: Message) -> None:
    """Never answer."""
    await asyncio.Event().wait()
