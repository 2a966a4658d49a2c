"""The MCP servers that an editor passes with a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from outrider.errors import ConfigError
from outrider.mcp.servers import HttpServer, McpServer, StdioServer, tool_prefix


def servers_of(given: Sequence[Mapping[str, Any]], folder: Path) -> tuple[list[McpServer], list[str]]:
    """Return the servers, and a note for each that cannot be used. The user has configured them in the editor."""
    servers: dict[str, McpServer] = {}
    notes: list[str] = []
    for each in given:
        name = each.get("name")
        shown = str(name)[:60] if name else "unnamed"
        try:
            server = _server(each, str(name or ""), folder)
            if servers.setdefault(tool_prefix(server.name), server) is not server:
                raise ConfigError("another server has this name")
        except ConfigError as error:
            notes.append(f"The MCP server {shown} is not used: {error}")
    return list(servers.values()), notes


def merged(editors: Sequence[McpServer], found: Sequence[McpServer]) -> list[McpServer]:
    """Return the editor's servers and those of files. An editor's server replaces one of the same name."""
    names = {tool_prefix(server.name) for server in editors}
    return [*editors, *(server for server in found if tool_prefix(server.name) not in names)]


def _server(given: Mapping[str, Any], name: str, folder: Path) -> McpServer:
    kind = given.get("type", "stdio")
    if kind == "stdio":
        args = given.get("args") or []
        if not isinstance(given.get("command"), str) or not _are_texts(args):
            raise ConfigError("command must be a text, and args a list of texts")
        return StdioServer(name, given["command"], tuple(args), _pairs(given.get("env") or [], "env"), folder)
    if kind in ("http", "sse"):  # the client finds out which of the two it is
        if not isinstance(given.get("url"), str):
            raise ConfigError("url must be a text")
        return HttpServer(name, given["url"], _pairs(given.get("headers") or [], "headers"))
    raise ConfigError(f"its type is {str(kind)[:40]!r}; stdio, http and sse are supported")


def _are_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)


def _pairs(given: Any, field: str) -> dict[str, str]:
    """Return variables or headers, which the protocol has as a list of names and values."""
    try:
        pairs = {each["name"]: each["value"] for each in given}
    except (TypeError, KeyError):
        raise ConfigError(f"{field} must be a list of objects with a name and a value") from None
    if not _are_texts([*pairs, *pairs.values()]):
        raise ConfigError(f"{field} must have texts as names and values")
    return pairs
