"""The servers of a session: started in parallel in the background, restarted when they end, closed together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeAlias

from outrider.errors import ConfigError, McpError
from outrider.mcp.channel import Authorization
from outrider.mcp.client import Client
from outrider.mcp.elicitation import OnElicit
from outrider.mcp.server_limits import DEFAULT, ServerHost
from outrider.mcp.servers import HttpServer, McpServer, tool_prefix
from outrider.mcp.supervision import ServerStatus, SupervisedServer
from outrider.processes.processes import Processes
from outrider.tools.tool import Tool

OnNotice: TypeAlias = Callable[[str], None]
"""Tells the person something about a server. Called in the event loop; must not raise."""
Authorize: TypeAlias = Callable[[HttpServer], Authorization | None]
"""Returns the authorization for a server."""


class ServerPool:
    """The servers of a session. It is used in one event loop.

    A server that fails, hangs or floods costs its own calls an error result, and a notice; it never blocks the others.
    """

    def __init__(
        self,
        servers: Iterable[McpServer],
        *,
        on_elicit: OnElicit | None = None,
        on_notice: OnNotice | None = None,
        on_change: Callable[[], None] | None = None,
        authorize: Authorize | None = None,
        host: ServerHost = DEFAULT,
    ) -> None:
        """`on_change` is called when the tools change."""
        self._processes = Processes()
        self._servers: dict[str, SupervisedServer] = {}

        def make_client(supervised: SupervisedServer) -> Client:
            server = supervised.server
            return Client(
                server,
                on_elicit=on_elicit,
                on_change=supervised.list_changed,
                on_close=supervised.lost,
                authorization=authorize(server) if authorize and isinstance(server, HttpServer) else None,
                host=host,
                processes=self._processes,
                handshake_first=supervised.is_old,
            )

        for server in distinct(servers):
            self._servers[server.name] = SupervisedServer(
                server, make_client, on_notice or (lambda _: None), on_change or (lambda: None), host.restarts
            )

    def start(self) -> None:
        """Start all servers in the background."""
        for server in self._servers.values():
            server.start()

    async def settled(self, timeout: float | None = None) -> bool:
        """Wait until every server is ready or has failed. Return False if the time is over first."""
        waits = [asyncio.ensure_future(server.settled()) for server in self._servers.values()]
        if not waits:
            return True
        _, open_waits = await asyncio.wait(waits, timeout=timeout)
        for wait in open_waits:
            wait.cancel()
        return not open_waits

    def tools(self) -> tuple[Tool, ...]:
        """Return the tools of the servers that were ready at least once, in the order of the servers."""
        return tuple(tool for server in self._servers.values() for tool in server.tools)

    def instructions(self) -> dict[str, str]:
        """Return what each server that is ready says about the use of its tools, by name."""
        return {name: server.instructions for name, server in self._servers.items() if server.is_ready}

    def statuses(self) -> tuple[ServerStatus, ...]:
        return tuple(server.status for server in self._servers.values())

    def client(self, name: str) -> Client:
        """Return the client of a server that is ready, for its resources and prompts. Raises McpError."""
        return self._named(name).client()

    def ready(self) -> tuple[Client, ...]:
        """Return the clients of all servers that are ready."""
        return tuple(server.client() for server in self._servers.values() if server.is_ready)

    async def restart(self, name: str) -> None:
        """Start a server again, for example after a login, and wait until it is ready or has failed."""
        server = self._named(name)
        await server.close()
        server.start()
        await server.settled()

    def _named(self, name: str) -> SupervisedServer:
        if name not in self._servers:
            known = ", ".join(self._servers) or "none"
            raise McpError(f"There is no MCP server {name!r}. The servers are: {known}.")
        return self._servers[name]

    async def close(self) -> None:
        """End all servers."""
        await asyncio.gather(*(server.close() for server in self._servers.values()))
        self._processes.close()


def distinct(servers: Iterable[McpServer]) -> list[McpServer]:
    """Return the servers. Raises ConfigError if the tools of two would have the same names."""
    names: dict[str, str] = {}
    every = list(servers)
    for server in every:
        prefix = tool_prefix(server.name)
        if prefix in names:
            raise ConfigError(f"Two MCP servers have the same name, {names[prefix]!r} and {server.name!r}. Rename one.")
        names[prefix] = server.name
    return every
