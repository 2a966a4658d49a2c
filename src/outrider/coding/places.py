"""The folders in which users and projects keep files for agents: `.agents`, `.claude` and `.outrider`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from outrider.coding.project_texts import folders_to_search, trusted_owners
from outrider.environment import config_file

NAMES = (".claude", ".agents", ".outrider")
"""A later one wins if two have something of the same name."""
MOST_ENTRIES = 1_000
"""Entries of one folder that are looked at."""


class Place(msgspec.Struct, frozen=True):
    """One folder with files for agents."""

    path: Path
    label: str
    """For people."""
    top: Path | None = None
    """The project's folder, out of which no link may lead; None for the user's own files."""
    owners: frozenset[int] = frozenset()
    """The users whose files count; empty for all."""

    @property
    def is_project(self) -> bool:
        """Whether the folder is the project's, and not the user's own."""
        return self.top is not None

    def below(self, name: str) -> Place:
        return msgspec.structs.replace(self, path=self.path / name, label=f"{self.label}/{name}")

    def names(self) -> list[str]:
        """Return the names of the entries, sorted; none if there is no such folder."""
        try:
            return sorted(os.listdir(self.path))[:MOST_ENTRIES]
        except OSError:
            return []

    def problem(self, path: Path) -> str:
        """Return why a file or folder of this place is not used, or ""."""
        if self.top is None:
            return ""
        try:
            if not Path(os.path.realpath(path)).is_relative_to(self.top):
                return "it is a link that leads out of the project"
            if self.owners and path.stat().st_uid not in self.owners:
                return "it belongs to another user"
        except (OSError, ValueError) as error:
            return f"it cannot be read: {error.strerror if isinstance(error, OSError) else error}"
        return ""


def find_places(folder: Path, home: Path | None = None) -> list[Place]:
    """Return the user's folders, then the project's from its root to the folder: later ones win."""
    folder, home = Path(os.path.realpath(folder)), home or Path.home()
    own = {home / name: f"~/{name}" for name in NAMES}
    own[config_file().parent] = "your settings"
    places = [Place(path, label) for path, label in own.items()]
    known = {Path(os.path.realpath(path)) for path in own}
    return [
        *places,
        *(each for each in _project_places(folder, home) if Path(os.path.realpath(each.path)) not in known),
    ]


def _project_places(folder: Path, home: Path) -> Iterator[Place]:
    folders = folders_to_search(folder, home)
    owners = trusted_owners(folder)
    is_repository = os.path.lexists(folders[0] / ".git")
    for each in folders:
        for name in NAMES:
            label = os.path.relpath(each / name, folder)
            yield Place(each / name, label, folders[0] if is_repository else each, owners)
