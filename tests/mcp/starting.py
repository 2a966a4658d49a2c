"""The servers that the tests start."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from outrider.mcp.client import Client
from outrider.mcp.pool import ServerPool
from outrider.mcp.protocol import CallToolResult, ContentBlock
from outrider.mcp.server_limits import Bounds, Restarts, ServerHost
from outrider.mcp.servers import McpServer, StdioServer
from outrider.tools.context import CallRef, ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.threads import Threads

HERE = Path(__file__).parent


def scripted(
    name: str = "scripted", *, timeout: float = 60, startup_timeout: float = 60, **options: Any
) -> StdioServer:
    """Return the scripted server with these options."""
    return _program(name, "scripted_server.py", options, timeout, startup_timeout)


def hostile(
    what: str, name: str = "hostile", *, timeout: float = 60, startup_timeout: float = 60, **options: Any
) -> StdioServer:
    """Return the server that misbehaves in one way."""
    return _program(name, "hostile_server.py", {"what": what, **options}, timeout, startup_timeout)


def _program(name: str, file: str, options: dict[str, Any], timeout: float, startup_timeout: float) -> StdioServer:
    # -S and -E: no site packages, so that the program starts quickly.
    args = ["-S", "-E", str(HERE / file), json.dumps(options)]
    return StdioServer(name, sys.executable, args, timeout=timeout, startup_timeout=startup_timeout)


@asynccontextmanager
async def connected(server: McpServer, **options: Any) -> AsyncIterator[Client]:
    """Return a client of a server, and close it at the end."""
    client = Client(server, **options)
    try:
        await client.connect()
        yield client
    finally:
        await client.close()


def text_of(result: CallToolResult) -> str:
    """Return the text of a result."""
    return "".join(msgspec.json.decode(block, type=ContentBlock).text for block in result.content)


QUICK = ServerHost(restarts=Restarts(first_pause=0.01, longest_pause=0.05, list_pause=0.01))


def limited(**bounds: Any) -> ServerHost:
    """Return a host whose servers may send less than usual."""
    return ServerHost(bounds=Bounds(**bounds))


class Pool(ServerPool):
    """A pool that keeps its notices, and calls tools as a session does."""

    def __init__(self, *servers: McpServer, host: ServerHost = QUICK, **more: Any) -> None:
        self.notices: list[str] = []
        self.progress: list[Any] = []
        super().__init__(servers, on_notice=self.notices.append, host=host, **more)

    async def __aenter__(self) -> Pool:
        self.start()
        await self.settled()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    @property
    def names(self) -> list[str]:
        return [tool.name for tool in self.tools()]

    async def call(self, name: str, **arguments: Any) -> ToolResult:
        tool = next(tool for tool in self.tools() if tool.name == name)
        context: ToolContext[Any] = ToolContext(CallRef("call"), Path(), Threads(), self.progress.append)
        return await tool.invoke(arguments, context)


def servers_json(*servers: StdioServer) -> str:
    """Return the content of a file that names these servers."""
    entries = {server.name: {"command": server.command, "args": list(server.args)} for server in servers}
    return json.dumps({"mcpServers": entries})
