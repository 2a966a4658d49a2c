"""The authorization of MCP servers at an address: tokens that `outrider mcp login` has stored."""

from __future__ import annotations

from outrider.mcp.channel import Authorization
from outrider.mcp.servers import HttpServer


def authorize(server: HttpServer) -> Authorization | None:
    """Return the authorization for a server, or None."""
    return None
