"""What a workbench knows of its project: a folder of this machine, or one elsewhere (`coding/hands/hands.py`)."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Protocol

from outrider.coding.commands import FoundCommands
from outrider.coding.extensions import Extensions
from outrider.coding.found_skills import FoundSkills, index_folder, readable_rules, skills_section
from outrider.coding.git_commands import changes_since_commit
from outrider.coding.named_files import FilesHere, NamedFiles
from outrider.coding.permissions.approver import PermissionApprover
from outrider.coding.session_tools import SessionTools
from outrider.coding.snapshots.folder import FolderSnapshots
from outrider.coding.system_prompt import as_prompt, project_instructions, situation
from outrider.coding.toolbox.workspace import Workspace
from outrider.environment import data_folder
from outrider.errors import ConfigError
from outrider.log.log import Log
from outrider.log.working_folder import WorkingFolder

PLACE = "workspace"
"""The key of a session's metadata that says where its hands are, if not here."""


def check_place(metadata: Mapping[str, str], place: str) -> None:
    """Raise ConfigError if a session worked in another place: its model would take files here for those there."""
    before = metadata.get(PLACE, "")
    if before != place:
        where = f"in {before}" if before else "on this machine"
        advice = f"with --in {shlex.quote(before)}" if before else "without --in"
        raise ConfigError(f"this session works {where}: resume it {advice}")


class Project(Protocol):
    """A project, here or elsewhere. What is elsewhere may block, and raise HandsError."""

    @property
    def files(self) -> NamedFiles:
        """The files that the user can name in a prompt."""

    @property
    def skills(self) -> FoundSkills:
        """The skills that its agents have."""

    @property
    def skills_section(self) -> str:
        """The skills in the system prompt. Their files may be read without a question."""

    def commands_with(self, own: FoundCommands) -> FoundCommands:
        """Return the commands that a person can call by name; `own` are those that were found here."""

    @property
    def instructions(self) -> str:
        """The project's instructions, for the system prompt."""

    @property
    def situation(self) -> str:
        """Where the agent works, for the system prompt."""

    def names(self) -> list[str]:
        """Return the names of its files, without those that git ignores."""

    @property
    def notes(self) -> tuple[str, ...]:
        """More notes for the user."""

    @property
    def sandbox_note(self) -> str:
        """A note for the user if there should be a sandbox and there is none, or ""."""

    @property
    def is_sandboxed(self) -> bool:
        """Whether commands run in a sandbox. Raises ConfigError if the settings require one and there is none."""

    def changes_since_commit(self) -> str:
        """Return a diff of the changed files and the names of the new ones. Raises OutriderError."""

    def working_folder(self, log: Log, session: str) -> WorkingFolder:
        """Return the folder of a session, which can be rewound."""


class ProjectHere:
    """A project in a folder of this machine."""

    def __init__(
        self, workspace: Workspace, extensions: Extensions, tools: SessionTools, permissions: PermissionApprover
    ) -> None:
        self._workspace = workspace
        self._folder = workspace.folder
        self._extensions = extensions
        self._tools = tools
        self._permissions = permissions
        self.notes: tuple[str, ...] = ()
        self.files = FilesHere(self._folder)

    @property
    def skills(self) -> FoundSkills:
        return self._extensions.skills

    @cached_property
    def skills_section(self) -> str:
        section = skills_section(self.skills.skills, data_folder())
        self._permissions.allow(readable_rules(self.skills, self._folder, index_folder(data_folder())))
        return section

    def commands_with(self, own: FoundCommands) -> FoundCommands:
        return own

    @property
    def instructions(self) -> str:
        return as_prompt(project_instructions(self._folder, home=Path.home()))

    @property
    def situation(self) -> str:
        return situation(self._folder)

    def names(self) -> list[str]:
        from outrider.coding.toolbox.search.ripgrep import file_names  # only the lean form asks for them

        return file_names(self._workspace.programs, self._folder)

    @property
    def sandbox_note(self) -> str:
        return self._tools.sandbox_note

    @property
    def is_sandboxed(self) -> bool:
        return self._tools.sandbox is not None

    def changes_since_commit(self) -> str:
        programs = self._workspace.programs
        return changes_since_commit(self._folder, programs, lambda argv: self._tools.at_read(argv, self._workspace))

    def working_folder(self, log: Log, session: str) -> WorkingFolder:
        return FolderSnapshots(self._folder, log, session, secrets=self._permissions.policy.secrets)
