"""The MCP servers of a plugin: its `mcp.json`, as the Agent Plugins specification 1.0.0 has it."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec

from outrider.errors import ConfigError
from outrider.mcp.servers import HttpServer, McpServer, StdioServer
from outrider.struct_types import described

SCHEMA = "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json"
_CWD = r"^(?:\./|\$\{PLUGIN_ROOT\}(?:/|\Z)|\$\{PLUGIN_DATA\}(?:/|\Z))"
_RESERVED = ("PLUGIN_ROOT", "PLUGIN_DATA")


class StdioEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="stdio"):
    """A server that is a program."""

    command: Annotated[str, msgspec.Meta(min_length=1)]
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: Annotated[str, msgspec.Meta(pattern=_CWD)] = "${PLUGIN_ROOT}"


class HttpEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="streamable-http"):
    """A server at an address."""

    url: Annotated[str, msgspec.Meta(min_length=1)]
    headers: dict[str, str] = {}


class SseEntry(HttpEntry, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="sse"):
    """A server at an address, with the former transport. The client finds out which of the two a server has."""


def read_entry(fields: Any) -> StdioEntry | HttpEntry | SseEntry:
    """Return the entry of one server. Raises ValueError if it does not have the form of the specification."""
    try:
        entry = msgspec.convert(fields, described(StdioEntry | HttpEntry | SseEntry))
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    if isinstance(entry, StdioEntry) and (reserved := [name for name in _RESERVED if name in entry.env]):
        raise ValueError(f"env must not have {reserved[0]}, which every server of a plugin gets")
    return entry


def read_servers(data: Any, root: Path, folder_for_data: Callable[[], Path]) -> tuple[list[McpServer], list[str]]:
    """Return the servers of a plugin, and a note for each that is left out. Raises ValueError for the whole file."""
    if not isinstance(data, dict) or set(data) != {"$schema", "mcpServers"} or data["$schema"] != SCHEMA:
        raise ValueError(f'it must have "$schema": "{SCHEMA}" and "mcpServers", and nothing else')
    if not isinstance(data["mcpServers"], dict):
        raise ValueError("mcpServers must be a table of servers")
    servers: list[McpServer] = []
    notes: list[str] = []
    for name, fields in data["mcpServers"].items():
        try:
            servers.append(_server(name, read_entry(fields), root, folder_for_data))
        except (ValueError, ConfigError) as error:
            notes.append(f"the server {name[:60]!r} is left out: {error}")
    return servers, notes


def _server(
    name: str, entry: StdioEntry | HttpEntry | SseEntry, root: Path, folder_for_data: Callable[[], Path]
) -> McpServer:
    if isinstance(entry, HttpEntry):
        _check_address(entry)
        return HttpServer(name, entry.url, entry.headers)
    data = folder_for_data()

    def filled(text: str) -> str:
        # In one pass: what takes the place of a variable is not looked at again.
        parts = text.split("${PLUGIN_ROOT}")
        return str(root).join(part.replace("${PLUGIN_DATA}", str(data)) for part in parts)

    places = {"PLUGIN_ROOT": str(root), "PLUGIN_DATA": str(data)}
    cwd = _inside(entry.cwd, root, data, filled)
    args = tuple(map(filled, entry.args))
    env = {key: filled(value) for key, value in entry.env.items()}
    return StdioServer(name, _program(entry.command, root), args, env | places, str(cwd))


def _program(command: str, root: Path) -> str:
    if not command.startswith("./"):
        if "/" in command or "\\" in command:
            raise ValueError("command must be the name of a program, or a path that begins with ./")
        return command
    path = Path(os.path.realpath(root / command))
    if not path.is_relative_to(root):
        raise ValueError("command leads out of the plugin")
    return str(path)


def _inside(cwd: str, root: Path, data: Path, filled: Callable[[str], str]) -> Path:
    top = Path(os.path.realpath(data)) if cwd.startswith("${PLUGIN_DATA}") else root
    path = Path(os.path.realpath(root / filled(cwd)))
    if not path.is_relative_to(top):
        raise ValueError("cwd leads out of the plugin")
    return path


def _check_address(entry: HttpEntry) -> None:
    parts = urlsplit(entry.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("url must be an address that begins with https://")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise ValueError("url must have no user name, password or fragment")
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise ValueError("url must begin with https:// unless it is on this machine")
    names = [name.lower() for name in entry.headers]
    if len(set(names)) < len(names):
        raise ValueError("headers has the same name twice")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
