"""What users, projects and plugins add to the agent of a folder: skills and commands."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from outrider.coding.commands.finding import FoundCommands, find_commands
from outrider.coding.places import Place, find_places
from outrider.coding.skills.finding import FoundSkills, find_skills


class Extensions:
    """The extensions of a folder, each kind found when it is first asked for."""

    def __init__(self, folder: Path, home: Path | None = None) -> None:
        self._folder = folder
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


def find_extensions(folder: Path) -> Extensions:
    """Return the extensions of a folder."""
    return Extensions(folder)
