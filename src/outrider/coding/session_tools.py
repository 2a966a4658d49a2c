"""The tools of a session's agents: those of the toolbox that the settings enable, and the user's own."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from outrider.coding.access import ACCESS_LEVELS, NO_SANDBOX, Access
from outrider.coding.command_environment import command_environment, unset_variables
from outrider.coding.config.settings import Settings
from outrider.coding.permissions.approver import PermissionApprover
from outrider.coding.permissions.file_access import is_hidden
from outrider.coding.placeholder_keeper import remove_unused
from outrider.coding.sandbox.sandbox import Confinement
from outrider.coding.system_prompt import FolderInstructions
from outrider.coding.toolbox import ALL_NAMES, TOOL_NAMES, WEB_SEARCH, standard_tools
from outrider.coding.toolbox.shell.shell import Shell
from outrider.coding.toolbox.workspace import Workspace
from outrider.coding.user_policy import protected_files
from outrider.errors import ConfigError
from outrider.tools.tool import Tool

if TYPE_CHECKING:
    from outrider.coding.permissions.policy import Policy
    from outrider.coding.sandbox.sandbox import Sandbox


class SessionTools:
    """Makes the tools of the agent, and those of each sub-agent in a workspace of its own."""

    def __init__(self, settings: Settings, folder: Path, permissions: PermissionApprover, own: Sequence[Tool]) -> None:
        """`own` are the user's tools."""
        self._settings = settings
        self._folder = folder
        self._permissions = permissions
        self._own = own
        self._folders = settings.permissions.working_folders(folder)
        self._trial = threading.Lock()
        permissions.before_command = self.use_sandbox
        self.enabled: Sequence[str] = ALL_NAMES if settings.tools is None else settings.tools
        """The names of the built-in tools that agents may have, with Task and web search."""
        self.names = [*TOOL_NAMES, *(tool.name for tool in own)]
        """The names of the tools that `in_workspace` can make."""

    def in_workspace(self, workspace: Workspace, names: Sequence[str]) -> list[Tool]:
        """Return the enabled tools with these names, for a workspace. Raises ConfigError as `sandbox` does."""
        tools = self.toolbox(workspace, names)
        if workspace.forwarded is None:
            tools = list(map(self.instructions(workspace).around, tools))
        return [*tools, *(tool for tool in self._own if tool.name in names)]

    def toolbox(self, workspace: Workspace, names: Sequence[str]) -> list[Tool]:
        """Return the enabled tools of the toolbox with these names, as they are."""
        is_here = workspace.forwarded is None
        if is_here and "Bash" in self.enabled and self._settings.sandbox.use == "require":
            self.use_sandbox()
        return standard_tools(
            workspace,
            [name for name in self.enabled if name in names],
            shell=self.shell(workspace) if is_here else None,
            hidden=partial(self._hides, self._worktree(workspace)),
            private_addresses=self._settings.web.private_addresses,
        )

    def instructions(self, workspace: Workspace) -> FolderInstructions:
        """Return what finds the instructions of the folders that calls in a workspace are about."""
        worktree = self._worktree(workspace)
        folders = (worktree, *self._folders[1:]) if worktree else self._folders
        return FolderInstructions(workspace, folders, partial(self._hides, worktree))

    def _worktree(self, workspace: Workspace) -> Path | None:
        return None if workspace.folder == self._folder else workspace.folder

    def _hides(self, folder: Path | None, path: str) -> bool:
        return is_hidden(self._permissions.policy_in(folder), path)

    def shell(self, workspace: Workspace, *, for_hooks: bool = False, trusted: bool = False) -> Shell:
        """Return a shell in a workspace, with the sandbox and the environment that the tools have.

        Commands of hooks may change the files of hooks, which the user agreed to; those of models may not. Doubts about
        the sandbox do not count for a command that is `trusted`: the user chose it.
        """
        unset = unset_variables(os.environ, self._settings.sandbox.pass_env)
        policy = partial(self._permissions.policy_in, workspace.folder)
        obeyed = () if for_hooks else policy().obeyed
        kept = (*protected_files(self._settings, self._folder), *map(Path, obeyed))

        def places(access: Access) -> Confinement:
            now = policy()
            accepted = None if trusted else now.accepted_doubts(access)
            return msgspec.structs.replace(_places(now, workspace.folder), kept=kept, accepted=accepted)

        return Shell(workspace, lambda: self.sandbox, self.environment, unset, places)

    @property
    def offers_search(self) -> bool:
        """Whether web search is enabled, and no tool of the user has its name."""
        return WEB_SEARCH in self.enabled and all(tool.name != WEB_SEARCH for tool in self._own)

    def remove_leftovers(self) -> None:
        """Remove the placeholders that a killed process has left in the working folders."""
        remove_unused(_places(self._permissions.policy, self._folder).protected)

    def use_sandbox(self) -> None:
        """Let the sandbox count in decisions. Not for threads: the permissions may change meanwhile."""
        sandbox = self.sandbox
        self._permissions.sandboxed = sandbox is not None
        if sandbox is not None:
            places = _places(self._permissions.policy, self._folder)
            levels = [level for level in ACCESS_LEVELS if level != "full"]
            self._permissions.use_doubts({level: sandbox.doubts(level, places) for level in levels})

    @property
    def sandbox(self) -> Sandbox | None:
        """The sandbox for commands; None if they run without one. Raises ConfigError if the settings require one.

        The first access tries it, and may come from a thread. A second access at that time waits for the result.
        """
        with self._trial:
            return self._tried_sandbox

    @cached_property
    def _tried_sandbox(self) -> Sandbox | None:
        from outrider.coding.sandbox.available import (
            filter_hosts,
            find_sandbox,  # the first command needs it, not the first request
        )

        wanted = self._settings.sandbox
        found = None if wanted.use == "off" else find_sandbox(folders=self._folders)
        found = found and filter_hosts(found, wanted.allow_hosts)[0]
        if found is None and wanted.use == "require":
            raise ConfigError(
                'sandbox.use is "require", but no sandbox works here: run `outrider doctor` to see why, or set '
                'sandbox.use to "auto"'
            )
        return found

    @property
    def sandbox_note(self) -> str:
        wanted = self._settings.sandbox.use == "auto" and "Bash" in self.enabled
        return NO_SANDBOX if wanted and self.sandbox is None else ""

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of commands, hooks and servers, without keys."""
        return command_environment(os.environ, self._settings.sandbox.pass_env)

    def at_read(self, argv: Sequence[str], workspace: Workspace) -> list[str]:
        """Return the arguments that run a program at `read` in the folder, where there is a sandbox.

        What it prints is for the user, so secrets of the folder are not masked. Raises ConfigError as `sandbox` does.
        """
        if self.sandbox is None:
            return list(argv)
        temporary = self.shell(workspace).shared_tmp()
        places = Confinement(
            folder=self._folder, cwd=self._folder, temporary=temporary, secrets=(), own=self._permissions.policy.own
        )
        return self.sandbox.wrap(argv, "read", places)


def _places(policy: Policy, folder: Path) -> Confinement:
    """Return the places of commands in a folder. Each has its own start and temporary folder."""
    return Confinement(
        folder=folder, cwd=folder, temporary=folder, writable=policy.folders, secrets=policy.masked, own=policy.own
    )
