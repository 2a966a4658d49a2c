"""Prompts and resources of MCP servers, for completion in the chat."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from outrider.errors import McpError

if TYPE_CHECKING:
    from outrider.mcp.pool import ServerPool
    from outrider.mcp.running import RunningServers

REFRESH_SECONDS = 10.0
READ_SECONDS = 2.0
MOST = 500


class ServerNames:
    """The names of what servers offer, read from time to time. Call it in a thread: it may wait for a server."""

    def __init__(self, servers: Callable[[], RunningServers | None]) -> None:
        self._servers = servers
        self._prompts: dict[str, str] = {}
        self._resources: dict[str, str] = {}
        self._read_at = float("-inf")

    def prompts(self) -> dict[str, str]:
        """Return the descriptions of the prompts, by `server:prompt`."""
        self._refresh()
        return self._prompts

    def resources(self, typed: str) -> dict[str, str]:
        """Return the descriptions of the resources that match what was typed, by `server:uri`."""
        self._refresh()
        words = typed.lower()
        return {name: about for name, about in self._resources.items() if words in name.lower()}

    def _refresh(self) -> None:
        servers = self._servers()
        if servers is None or time.monotonic() - self._read_at < REFRESH_SECONDS:
            return
        is_early = bool(servers.starting)  # before the look: a server may get ready after it
        try:
            self._prompts, self._resources = servers.do_now(_read, READ_SECONDS)
            if not is_early:
                self._read_at = time.monotonic()
        except (McpError, TimeoutError):
            self._read_at = time.monotonic()


async def _read(pool: ServerPool) -> tuple[dict[str, str], dict[str, str]]:
    from outrider.coding.mcp.prompts import list_prompts
    from outrider.visible_text import one_line

    prompts = {each.name: f"{each.usage} {each.description}".strip() for each in await list_prompts(pool)}
    resources: dict[str, str] = {}
    for client in pool.ready():
        name = client.server.name
        try:
            for resource in (await client.list_resources())[:MOST]:
                if resource.uri.isprintable() and " " not in resource.uri:
                    resources[f"{name}:{resource.uri}"] = one_line(resource.title or resource.name or "", 80)
        except McpError:
            continue
    return prompts, resources
