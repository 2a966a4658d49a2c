"""Which redirects of an MCP server are followed: those within its own host."""

from __future__ import annotations

from urllib.parse import urljoin, urlsplit


def redirect_target(url: str, location: str) -> str | None:
    """Return the address to which a request is sent again, or None if it must not be.

    Tokens and arguments may not go to another host, nor from https to http.

    >>> redirect_target("http://example.org/mcp", "/mcp/")
    'http://example.org/mcp/'
    >>> redirect_target("https://example.org/mcp", "https://example.com/mcp")
    """
    try:
        target = urljoin(url, location)
        here, there = urlsplit(url), urlsplit(target)
        is_same = (here.scheme, here.hostname, here.port) == (there.scheme, there.hostname, there.port)
        is_upgrade = (here.scheme, there.scheme) == ("http", "https") and here.hostname == there.hostname
    except ValueError:
        return None
    has_password = there.username is not None or there.password is not None
    is_usable = bool(location) and target.isprintable() and not has_password
    return target if is_usable and target != url and (is_same or (is_upgrade and here.port == there.port)) else None
