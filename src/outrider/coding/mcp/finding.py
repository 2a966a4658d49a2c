"""The MCP servers of a folder: the user's own, and the project's after the user has agreed to them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from outrider.coding.config.loading import is_same_file, label_of
from outrider.coding.consent.check import StartCheck
from outrider.coding.consent.item import ConsentItem, secrets_among, variables_in
from outrider.coding.consent.store import Consents
from outrider.coding.mcp.entries import ServerEntry
from outrider.coding.mcp.files import ServersFile, find_project_servers, user_file
from outrider.environment import data_folder
from outrider.errors import ConfigError
from outrider.mcp.servers import McpServer, StdioServer, tool_prefix


class FoundServers(msgspec.Struct, frozen=True):
    """The servers of a folder."""

    servers: tuple[McpServer, ...] = ()
    waiting: tuple[ConsentItem, ...] = ()
    """The project's servers that need the user's consent: they start programs, or receive what a model sends."""
    agreed: tuple[ConsentItem, ...] = ()
    notes: tuple[str, ...] = ()
    """What is wrong with a file or a server. Such a server is left out; the others are used."""
    origins: dict[str, str] = {}
    """The file that each server is from, by its name, for people."""


def find_servers(folder: Path, environment: Mapping[str, str] | None = None) -> FoundServers:
    """Return the servers of a folder. Mistakes in files become notes."""
    variables = os.environ if environment is None else environment
    found = _Finding(variables)
    try:
        own = user_file(variables)
    except RuntimeError:  # the home folder is unknown, so there is no such file
        own = None
    if own:
        found.add_own(own, label_of(own), folder)
    project = find_project_servers(folder.resolve())
    if own is None or not is_same_file(project, own):
        found.add_project(project, os.path.relpath(project, folder.resolve()))
    return FoundServers(
        tuple(found.servers.values()), tuple(found.waiting), tuple(found.agreed), tuple(found.notes), found.origins
    )


class _Finding:
    """Collects servers from one file after the other."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.servers: dict[str, McpServer] = {}
        self.origins: dict[str, str] = {}
        self.notes: list[str] = []
        self.waiting: list[ConsentItem] = []
        self.agreed: list[ConsentItem] = []
        self._environment = environment
        self._consents = Consents(data_folder(environment))

    def add_own(self, path: Path, label: str, cwd: Path) -> None:
        """Add the servers of the user's own file."""
        for entry in self._entries(path, label):
            self._add(entry, label, cwd, None)

    def add_project(self, path: Path, label: str) -> None:
        """Add the servers of a project's file that the user has agreed to."""
        for entry in self._entries(path, label):
            item = server_item(entry, path, self._environment)
            if self._consents.is_given(item):
                self.agreed.append(item)
                self._add(entry, label, path.parent, StartCheck(item, self._consents))
            else:
                self.waiting.append(item)

    def _entries(self, path: Path, label: str) -> list[ServerEntry]:
        try:
            return [entry for entry in ServersFile(path, label).entries if not entry.is_disabled]
        except ConfigError as error:
            self.notes.append(f"{error}. Its servers are not used.")
            return []

    def _add(self, entry: ServerEntry, label: str, cwd: Path, check: StartCheck | None) -> None:
        prefix = tool_prefix(entry.name)
        if prefix in self.servers:
            other = self.origins[self.servers[prefix].name]
            self.notes.append(f"{entry.place} is left out: {other} has a server of this name.")
            return
        try:
            server = entry.server(self._environment, cwd, may_be_trusted=check is None)
        except ConfigError as error:
            self.notes.append(f"{error}. The server is left out.")
            return
        is_program = check and isinstance(server, StdioServer)
        self.servers[prefix] = msgspec.structs.replace(server, before_start=check) if is_program else server
        self.origins[entry.name] = label


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
