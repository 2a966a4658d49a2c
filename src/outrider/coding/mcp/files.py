"""The files that name MCP servers: `.mcp.json` in a project, and `mcp.json` beside the user's settings."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from outrider.coding.config.files import nearest, read_settings_file
from outrider.coding.config.masking import describe_type
from outrider.coding.config.private_files import write_private
from outrider.coding.mcp.entries import ServerEntry
from outrider.environment import config_file
from outrider.errors import ConfigError
from outrider.mcp.servers import tool_prefix

PROJECT_FILE = ".mcp.json"
SERVERS = "mcpServers"


def user_file(environment: Mapping[str, str] | None = None) -> Path:
    """Return the user's own file: `mcp.json` beside the settings file."""
    return config_file(environment).parent / "mcp.json"


def find_project_servers(folder: Path) -> Path:
    """Return the nearest `.mcp.json` upwards within the repository, or the folder's own if none exists."""
    return nearest(PROJECT_FILE, folder)


class ServersFile:
    """A file with servers, as it is now."""

    def __init__(self, path: Path, label: str) -> None:
        """Read the file; a missing one is empty. Raises ConfigError with the place."""
        self.path = path
        self.label = label
        file = read_settings_file(path, label)
        self.exists = file is not None
        self.content = file.content if file else b""
        self._data = _parsed(self.content, label) if file else {}

    @property
    def entries(self) -> list[ServerEntry]:
        """The servers in the file. Raises ConfigError with the place."""
        servers = self._data.get(SERVERS, {})
        if not isinstance(servers, dict):
            raise ConfigError(f"{self.label}: {SERVERS} must be a table of servers, not {describe_type(servers)}")
        entries: list[ServerEntry] = []
        for name, fields in servers.items():
            place = f"{self.label}: the server {name[:60]!r}"
            if not isinstance(fields, dict):
                raise ConfigError(f'{place} must be a table, as in {{"command": "…"}}, not {describe_type(fields)}')
            entries.append(ServerEntry(name, fields, place))
        return entries

    def entry(self, name: str) -> ServerEntry | None:
        """Return the server with this name, or None."""
        return next((each for each in self.entries if tool_prefix(each.name) == tool_prefix(name)), None)

    def put(self, name: str, fields: Mapping[str, Any]) -> None:
        """Add a server, and write the file. Everything else in it stays. Raises ConfigError."""
        self._write({each.name: each.fields for each in self.entries} | {name: dict(fields)})

    def remove(self, name: str) -> None:
        """Remove a server, and write the file."""
        self._write({each.name: each.fields for each in self.entries if each.name != name})

    def _write(self, servers: dict[str, Any]) -> None:
        self._data = {**self._data, SERVERS: servers}
        content = (json.dumps(self._data, indent=2, ensure_ascii=False) + "\n").encode(errors="backslashreplace")
        target = Path(os.path.realpath(self.path))  # a link stays a link
        write_private(target, content) if self.path.name != PROJECT_FILE else _write_shared(target, content)
        self.content, self.exists = content, True


def _parsed(content: bytes, label: str) -> dict[str, Any]:
    try:
        data = json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{label}, line {line}: the file is not UTF-8 text; save it as UTF-8") from None
    except json.JSONDecodeError as error:
        raise ConfigError(f"{label}, line {error.lineno}: this is not JSON: {error.msg}") from None
    except RecursionError:
        raise ConfigError(f"{label} is nested too deeply") from None
    if not isinstance(data, dict):
        raise ConfigError(f'{label} must be a table, as in {{"{SERVERS}": {{…}}}}, not {describe_type(data)}')
    return data


def _write_shared(path: Path, content: bytes) -> None:
    """Replace a project's file atomically. It is part of the project, so others who work on it may read it."""
    temporary = path.parent / f".{path.name}.{os.urandom(6).hex()}"
    try:
        try:
            temporary.write_bytes(content)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error
