"""The MCP servers of a folder: the user's own, and the project's after the user has agreed to them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from outrider.coding.config.consent import Consents
from outrider.coding.config.loading import digests_of, is_same_file, label_of
from outrider.coding.mcp.entries import ServerEntry
from outrider.coding.mcp.files import ServersFile, find_project_servers, user_file
from outrider.environment import data_folder
from outrider.errors import ConfigError
from outrider.mcp.servers import McpServer, tool_prefix
from outrider.text import counted


class ServerConsent(msgspec.Struct, frozen=True):
    """The servers of a project that need the user's consent: they start programs, or receive what a model sends."""

    project_file: Path
    content: bytes
    """What the consent covers: the file as it is now, and the project's files that its commands name."""
    entries: tuple[ServerEntry, ...]

    def __str__(self) -> str:
        """Return a sentence for the user. It contains nothing from the file itself."""
        servers = counted(len(self.entries), "MCP server")
        return f"The project's .mcp.json has {servers}, not used until you agree: outrider mcp trust"

    def give(self, environment: Mapping[str, str] | None = None) -> None:
        """Store the user's consent. Raises ConfigError if writing fails."""
        Consents(data_folder(environment)).give(self.project_file, self.content)


class FoundServers(msgspec.Struct, frozen=True):
    """The servers of a folder."""

    servers: tuple[McpServer, ...] = ()
    waiting: ServerConsent | None = None
    notes: tuple[str, ...] = ()
    """What is wrong with a file or a server. Such a server is left out; the others are used."""
    origins: dict[str, str] = {}
    """The file that each server is from, by its name, for people."""


def find_servers(
    folder: Path, environment: Mapping[str, str] | None = None, *, trust_project: bool = False
) -> FoundServers:
    """Return the servers of a folder. Mistakes in files become notes.

    `trust_project` uses the project's servers without the user's stored consent, for this time.
    """
    variables = os.environ if environment is None else environment
    found = _Finding(variables)
    try:
        own = user_file(variables)
    except RuntimeError:  # the home folder is unknown, so there is no such file
        own = None
    if own:
        found.add_file(own, label_of(own), folder, is_users=True)
    project = find_project_servers(folder.resolve())
    if own is None or not is_same_file(project, own):
        label = os.path.relpath(project, folder.resolve())
        found.add_project(project, label, trust=trust_project)
    return FoundServers(tuple(found.servers.values()), found.waiting, tuple(found.notes), found.origins)


class _Finding:
    """Collects servers from one file after the other."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.servers: dict[str, McpServer] = {}
        self.origins: dict[str, str] = {}
        self.notes: list[str] = []
        self.waiting: ServerConsent | None = None
        self._environment = environment

    def add_file(self, path: Path, label: str, cwd: Path, *, is_users: bool) -> None:
        try:
            entries = ServersFile(path, label).entries
        except ConfigError as error:
            self.notes.append(f"{error}. Its servers are not used.")
            return
        self._add(entries, label, cwd, is_users=is_users)

    def add_project(self, path: Path, label: str, *, trust: bool) -> None:
        try:
            file = ServersFile(path, label)
            entries = [entry for entry in file.entries if not entry.is_disabled]
        except ConfigError as error:
            self.notes.append(f"{error}. Its servers are not used.")
            return
        if not entries:
            return
        content = file.content + _fingerprint(entries, path.parent)
        if trust or Consents(data_folder(self._environment)).is_given(path, content):
            self._add(entries, label, path.parent, is_users=False)
        else:
            self.waiting = ServerConsent(path, content, tuple(entries))

    def _add(self, entries: list[ServerEntry], label: str, cwd: Path, *, is_users: bool) -> None:
        for entry in entries:
            if entry.is_disabled:
                continue
            prefix = tool_prefix(entry.name)
            if prefix in self.servers:
                other = self.origins[self.servers[prefix].name]
                self.notes.append(f"{entry.place} is left out: {other} has a server of this name.")
                continue
            try:
                self.servers[prefix] = entry.server(self._environment, cwd, may_be_trusted=is_users)
                self.origins[entry.name] = label
            except ConfigError as error:
                self.notes.append(f"{error}. The server is left out.")


def _fingerprint(entries: list[ServerEntry], root: Path) -> bytes:
    """Return the digests of the project's own programs: a changed script is a changed server."""
    return digests_of({word for entry in entries for word in entry.words}, root)
