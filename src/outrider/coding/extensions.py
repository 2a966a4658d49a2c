"""What users, projects and plugins add to the agent of a folder, and what of it needs the user's consent."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

import msgspec

from outrider.coding.commands import FoundCommands, find_commands
from outrider.coding.config.loading import load
from outrider.coding.consent.command_line import server_line
from outrider.coding.consent.coverage import cover
from outrider.coding.consent.item import ConsentItem, Consents, consent_folder
from outrider.coding.found_skills import FoundSkills, find_skills
from outrider.coding.hooks.hook_files import FoundHooks, find_hooks
from outrider.coding.mcp.server_files import find_servers
from outrider.coding.places import Place, find_places
from outrider.coding.plugins import FoundPlugins, find_plugins
from outrider.coding.profiles import FoundProfiles, find_profiles
from outrider.environment import config_file, data_folder
from outrider.mcp.servers import McpServer, StdioServer
from outrider.subagents.profile import built_in


class Extensions:
    """The extensions of a folder, each kind found when it is first asked for."""

    def __init__(self, folder: Path, hook_files: Sequence[str] = (), *, own_hooks: bool = True) -> None:
        """`hook_files` are files with hooks that the settings name. Without `own_hooks`, no others run."""
        self._own_hooks = own_hooks
        self._folder = folder
        self._hook_files = hook_files

    @cached_property
    def places(self) -> list[Place]:
        """The folders with files for agents: the user's and the project's."""
        return find_places(self._folder)

    @cached_property
    def skills(self) -> FoundSkills:
        return find_skills([*self.plugins.places, *self.places], self.plugins.prefixes)

    @cached_property
    def commands(self) -> FoundCommands:
        return find_commands([*self.plugins.places, *self.places], self.plugins.prefixes)

    @cached_property
    def hooks(self) -> FoundHooks:
        """The hooks, and those that wait for the user's consent."""
        is_own = self._own_hooks
        folder = Path(os.path.realpath(self._folder))
        found = find_hooks(self.places if is_own else (), folder, self._hook_files, own=is_own)
        found.hooks += self.plugins.hooks if is_own else []
        return found

    @cached_property
    def plugins(self) -> FoundPlugins:
        """The plugins, and those whose programs wait for the user's consent."""
        return find_plugins(self.places, Path(os.path.realpath(self._folder)))

    def profiles(self, tools: Iterable[str]) -> FoundProfiles:
        """Return the sub-agent profiles, for agents with these tools."""
        users = [Path("~/.claude/agents").expanduser(), config_file().parent / "agents"]
        plugins = [each.path / "agents" for each in self.plugins.places]
        return find_profiles(self._folder, users, built_in(), tools=tools, home=Path.home(), plugins=plugins)

    def obeyed(self, servers: Iterable[McpServer], folder: Path) -> list[str]:
        """Return the files and folders in the project of the programs that hooks and MCP servers run."""
        hooks = [hook.line(folder, folder) for hook in self.hooks.hooks]
        programs = [server_line(each, folder) for each in servers if isinstance(each, StdioServer)]
        named = cover([*hooks, *programs]).paths
        return list(dict.fromkeys(path for each in named for path in (each, os.path.realpath(each))))

    @property
    def waiting(self) -> list[ConsentItem]:
        """The hooks and plugins that wait for the user's consent."""
        return [*self.hooks.waiting, *self.plugins.waiting]

    @property
    def notes(self) -> list[str]:
        """What the user should know when a session begins: what was refused."""
        refused = (self.skills.refused, self.commands.refused, self.hooks.notes, self.plugins.refused)
        return [note for notes in refused for note in notes]


def find_extensions(folder: Path) -> Extensions:
    """Return the extensions of a folder, as its settings have them. Raises ConfigError."""
    settings = load(folder, environment=os.environ).settings
    return Extensions(folder, settings.hooks.files, own_hooks=settings.managed.own_hooks)


class ProjectTrust(msgspec.Struct, frozen=True):
    """What waits for the user's consent in a folder, and what the user has agreed to."""

    folder: Path
    waiting: tuple[ConsentItem, ...]
    agreed: tuple[ConsentItem, ...]
    notes: tuple[str, ...]
    """What is wrong with a file, and is therefore not used."""


def find_trust(folder: Path) -> ProjectTrust:
    """Return what a folder wants. Raises ConfigError if its settings are invalid."""
    folder = Path(os.path.realpath(folder))
    loaded = load(folder, environment=os.environ)
    extensions = Extensions(folder, loaded.settings.hooks.files)
    servers = find_servers(folder)
    plugins = [each.consent for each in extensions.plugins.plugins if each.consent and not each.is_waiting]
    return ProjectTrust(
        folder,
        (*loaded.waiting, *extensions.hooks.waiting, *servers.waiting, *extensions.plugins.waiting),
        (*loaded.agreed, *extensions.hooks.agreed, *servers.agreed, *plugins),
        (*loaded.notes, *extensions.hooks.notes, *servers.notes, *extensions.plugins.refused),
    )


def revoke_trust(trust: ProjectTrust) -> tuple[ConsentItem, ...]:
    """Remove every consent to what a folder wants. Return what the user had agreed to."""
    items = (*trust.waiting, *trust.agreed)
    own = {consent_folder(item.file) for item in items} | {trust.folder}
    for folder in own:
        Consents(data_folder()).forget(folder)
    return trust.agreed
