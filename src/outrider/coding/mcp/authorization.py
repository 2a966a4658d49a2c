"""The authorization of MCP servers at an address: logins that `outrider mcp login` has stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outrider.environment import data_folder

if TYPE_CHECKING:
    from outrider.mcp.channel import Authorization
    from outrider.mcp.oauth import OpenUrl
    from outrider.mcp.servers import HttpServer
    from outrider.mcp.tokens import TokenStore


def authorize(server: HttpServer, open_url: OpenUrl | None = None) -> Authorization | None:
    """Return the authorization for a server; None if its headers have one. Without `open_url` no one is asked."""
    if any(name.lower() == "authorization" for name in server.headers):
        return None
    from outrider.mcp.oauth import OAuth

    return OAuth(server, token_store(), open_url=open_url)


def token_store() -> TokenStore:
    from outrider.mcp.tokens import TokenStore

    return TokenStore(data_folder())
