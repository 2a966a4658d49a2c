"""The MCP servers of a folder: those of the user, and those of the project after the user has agreed to them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from outrider.coding.config.loading import is_same_file, label_of
from outrider.coding.consent.item import ConsentItem, secrets_among, variables_in
from outrider.coding.consent.store import Consents, StartCheck
from outrider.coding.masking import describe_type
from outrider.coding.mcp.entries import ServerEntry
from outrider.coding.settings_files import nearest, read_settings_file, write_private, write_shared
from outrider.environment import config_file, data_folder
from outrider.errors import ConfigError
from outrider.mcp.servers import McpServer, StdioServer, tool_prefix


class FoundServers(msgspec.Struct):
    """The servers of a folder."""

    servers: list[McpServer] = []
    waiting: list[ConsentItem] = []
    """The project's servers that need the user's consent: they start programs, or receive what a model sends."""
    agreed: list[ConsentItem] = []
    notes: list[str] = []
    """What is wrong with a file or a server. Such a server is left out; the others are used."""
    origins: dict[str, str] = {}
    """The file that each server is from, by its name, for people."""

    def add(
        self, entry: ServerEntry, label: str, environment: Mapping[str, str], cwd: Path, check: StartCheck | None = None
    ) -> None:
        """Add a server, unless another has its name. One of a project has a check before each start."""
        names = (each.name for each in self.servers)
        if other := next((name for name in names if tool_prefix(name) == tool_prefix(entry.name)), None):
            self.notes.append(f"{entry.place} is left out: {self.origins[other]} has a server of this name.")
            return
        try:
            server = entry.server(environment, cwd, may_be_trusted=check is None)
        except ConfigError as error:
            self.notes.append(f"{error}. The server is left out.")
            return
        is_program = check and isinstance(server, StdioServer)
        self.servers.append(msgspec.structs.replace(server, before_start=check) if is_program else server)
        self.origins[entry.name] = label


def find_servers(folder: Path, environment: Mapping[str, str] | None = None) -> FoundServers:
    """Return the servers of a folder. Mistakes in files become notes."""
    variables = os.environ if environment is None else environment
    found, consents = FoundServers(), Consents(data_folder(variables))
    try:
        own = user_file(variables)
    except RuntimeError:  # the home folder is unknown, so there is no such file
        own = None
    if own:
        for entry in _entries(own, label_of(own), found.notes):
            found.add(entry, label_of(own), variables, folder)
    project = find_project_servers(folder.resolve())
    if own is not None and is_same_file(project, own):
        return found
    label = os.path.relpath(project, folder.resolve())
    for entry in _entries(project, label, found.notes):
        item = server_item(entry, project, variables)
        if consents.is_given(item):
            found.agreed.append(item)
            found.add(entry, label, variables, project.parent, StartCheck(item, consents))
        else:
            found.waiting.append(item)
    return found


def _entries(path: Path, label: str, notes: list[str]) -> list[ServerEntry]:
    try:
        return [entry for entry in ServersFile(path, label).entries if not entry.is_disabled]
    except ConfigError as error:
        notes.append(f"{error}. Its servers are not used.")
        return []


def server_item(entry: ServerEntry, file: Path, environment: Mapping[str, str]) -> ConsentItem:
    """Return what the user agrees to: every field of the server, what its command names, and the secrets it reads."""
    names = variables_in(entry.texts())
    goes = f"sends it to {entry.fields['url']}" if "url" in entry.fields else "gives it to the program"
    read = [(f"reads {name}", f"from your environment, and {goes}") for name in names]
    is_program = "url" not in entry.fields
    runs = "with all your rights, outside of the sandbox" if is_program else "receives what the model sends it"
    return ConsentItem(
        kind="server",
        name=entry.name,
        file=file,
        declaration=entry.fields,
        fields=(*entry.shown(file.parent), *read, ("runs" if is_program else "at its address it", runs)),
        lines=(entry.line(environment, file.parent),) if is_program else (),
        secrets=secrets_among(names, environment),
    )


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
        return next((each for each in self.entries if tool_prefix(each.name) == tool_prefix(name)), None)

    def put(self, name: str, fields: Mapping[str, Any]) -> None:
        """Add a server, and write the file. Everything else in it stays. Raises ConfigError."""
        self._write({each.name: each.fields for each in self.entries} | {name: dict(fields)})

    def remove(self, name: str) -> None:
        self._write({each.name: each.fields for each in self.entries if each.name != name})

    def _write(self, servers: dict[str, Any]) -> None:
        self._data = {**self._data, SERVERS: servers}
        content = (json.dumps(self._data, indent=2, ensure_ascii=False) + "\n").encode(errors="backslashreplace")
        target = Path(os.path.realpath(self.path))  # a link stays a link
        write_private(target, content) if self.path.name != PROJECT_FILE else write_shared(target, content)
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
