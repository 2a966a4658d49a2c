"""Descriptions of MCP servers: a program to start, or an address."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from outrider.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path
else:
    from os import PathLike as Path  # pathlib is slow to import; help() evaluates annotations

STARTUP_SECONDS = 60.0
CALL_SECONDS = 300.0

_NOT_IN_NAMES = r"[^a-zA-Z0-9-]+"
_PREFIX_LENGTH = 40  # the prefix and the name of the tool share 64 characters


class _Server(msgspec.Struct, frozen=True, kw_only=True):
    trusted: bool = False
    """Whether the server's hints count: a tool that says it only reads is then treated so."""
    timeout: float = CALL_SECONDS
    """Seconds without an answer or progress until a call fails."""
    startup_timeout: float = STARTUP_SECONDS
    """Seconds until the server must have answered for the first time."""
    protocol: str = ""
    """The only version of the protocol to speak, such as "2025-06-18"; empty to agree on one with the server."""


class StdioServer(_Server, frozen=True):
    """An MCP server that is a program: it is started, and speaks over its standard input and output.

    >>> StdioServer("time", "uvx", ["mcp-server-time"], env={"TZ_KEY": "secret"})
    StdioServer('time', 'uvx', ['mcp-server-time'], env=TZ_KEY)
    """

    name: str
    command: str
    args: Sequence[str] = ()
    env: Mapping[str, str] = {}
    """Variables added to the environment; keys are not passed on unless they are here."""
    cwd: Path | str | None = None
    """The folder in which the program starts; None for the current one."""
    before_start: Callable[[], str] | None = None
    """Returns why the program must not start now, or "". Called in a thread before every start."""

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_protocol(self)
        if not self.command:
            raise ConfigError(f"The MCP server {self.name} has no command: name the program to start.")

    def __repr__(self) -> str:
        variables = f", env={','.join(self.env)}" if self.env else ""
        return f"StdioServer({self.name!r}, {self.command!r}, {list(self.args)!r}{variables})"


class HttpServer(_Server, frozen=True):
    """An MCP server at an address, spoken to over streamable HTTP.

    >>> HttpServer("docs", "https://example.org/mcp", {"Authorization": "Bearer secret"})
    HttpServer('docs', 'https://example.org/mcp', headers=Authorization)
    """

    name: str
    url: str
    headers: Mapping[str, str] = {}
    """Headers of every request."""

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_protocol(self)
        if not self.url.startswith(("https://", "http://")):
            raise ConfigError(f"The address of the MCP server {self.name} must begin with https:// or http://.")

    def __repr__(self) -> str:
        headers = f", headers={','.join(self.headers)}" if self.headers else ""
        return f"HttpServer({self.name!r}, {self.url!r}{headers})"


McpServer: TypeAlias = StdioServer | HttpServer


def tool_prefix(name: str) -> str:
    """Return the beginning of the names of a server's tools. A rule for it covers no other server.

    >>> tool_prefix("my files"), tool_prefix("my__files")
    ('mcp__my_files__', 'mcp__my_files__')
    """
    return f"mcp__{re.sub(_NOT_IN_NAMES, '_', name).strip('_')}__"


def secrets_of(server: McpServer) -> list[str]:
    """Return the values of the description that no error text may show."""
    values = server.env.values() if isinstance(server, StdioServer) else server.headers.values()
    return [part for value in values for part in {value, *value.split()} if len(part) >= 6]


def _check_name(name: str) -> None:
    if tool_prefix(name) == tool_prefix("") or len(tool_prefix(name)) > _PREFIX_LENGTH:
        longest = _PREFIX_LENGTH - len(tool_prefix(""))
        raise ConfigError(f"The name of an MCP server has 1 to {longest} characters, not {name[:80]!r}.")


def _check_protocol(server: McpServer) -> None:
    if not server.protocol:
        return
    from outrider.mcp.protocol import HANDSHAKE_VERSIONS, MODERN_VERSIONS  # few servers are pinned

    known = (*MODERN_VERSIONS, *HANDSHAKE_VERSIONS)
    if server.protocol not in known:
        raise ConfigError(
            f"The MCP server {server.name} has the protocol {str(server.protocol)[:40]!r}; "
            f"it must be one of {', '.join(known)}."
        )
