"""The MCP servers of a session: their tools join its own, and their notices become events."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from outrider.mcp.running import RunningServers, ServerTools
from outrider.mcp.servers import McpServer
from outrider.tools.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Sequence

Mcp: TypeAlias = "Sequence[McpServer] | RunningServers | ServerTools"
"""What `Agent(mcp=…)` takes: servers that the session starts and ends, or servers that run for several sessions."""


class SessionServers:
    """Gives the tools of servers to a session. Servers that were described to it end with it."""

    def __init__(self, mcp: Mcp) -> None:
        self._names: Sequence[str] | None = None
        self._is_owner = False
        match mcp:
            case RunningServers():
                self.running = mcp
            case ServerTools():
                self.running, self._names = mcp.servers, mcp.names
            case _:
                self.running, self._is_owner = RunningServers(mcp), True
        self._has_waited = False
        self._late: tuple[str, ...] = ()
        self.running.start()

    async def ready_tools(self) -> tuple[Tool, ...]:
        """Return the tools of all servers that are ready. The first request waits a moment for the others."""
        if not self._has_waited:
            self._has_waited = True
            if self.running.starting and not await self.running.settled(self.running.grace):
                self._late = self.running.starting
        return self.running.tools(self._names)

    def take_notices(self) -> list[str]:
        """Return what the person should know: servers that are late, failed or were started again."""
        late, self._late = self._late, ()
        return [*(f"The MCP server {name} is still starting. Its tools join later." for name in late)] + (
            self.running.take_notices()
        )

    def stop(self) -> None:
        """Begin to end the servers that belong to the session."""
        if self._is_owner:
            self.running.stop()

    def close(self) -> None:
        """End the servers that belong to the session."""
        if self._is_owner:
            self.running.close()
