"""What users, projects and plugins add to the agent of a folder: skills, commands and hooks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from outrider.coding.commands.finding import FoundCommands, find_commands
from outrider.coding.config.loading import load
from outrider.coding.hooks.finding import FoundHooks, find_hooks
from outrider.coding.places import Place, find_places
from outrider.coding.skills.finding import FoundSkills, find_skills


class Extensions:
    """The extensions of a folder, each kind found when it is first asked for."""

    def __init__(self, folder: Path, hook_files: Sequence[str] = (), home: Path | None = None) -> None:
        """`hook_files` are files with hooks that the settings name."""
        self._folder = folder
        self._hook_files = hook_files
        self._home = home

    @cached_property
    def places(self) -> list[Place]:
        """The folders with files for agents: the user's and the project's."""
        return find_places(self._folder, self._home)

    @cached_property
    def skills(self) -> FoundSkills:
        """The skills."""
        return find_skills(self.places)

    @cached_property
    def commands(self) -> FoundCommands:
        """The commands."""
        return find_commands(self.places)

    @cached_property
    def hooks(self) -> FoundHooks:
        """The hooks, and those that wait for the user's consent."""
        return find_hooks(self.places, self._hook_files)


def find_extensions(folder: Path) -> Extensions:
    """Return the extensions of a folder, as its settings have them. Raises ConfigError."""
    return Extensions(folder, load(folder, environment=os.environ).settings.hooks.files)
