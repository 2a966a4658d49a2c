"""Find the commands of a folder: the built-in ones, the user's own, the project's, and those of plugins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from outrider.coding.commands.command import Command, read_command
from outrider.coding.config.files import read_regular_file
from outrider.coding.places import MOST_ENTRIES, Place
from outrider.prompts import prompt
from outrider.text import clean

MAX_BYTES = 64 * 1024
DEEPEST = 3
"""Folders inside a folder of commands: `frontend/review.md` is `/frontend:review`."""


class FoundCommands(msgspec.Struct, frozen=True):
    """The commands of a folder, and what was refused."""

    commands: tuple[Command, ...] = ()
    refused: tuple[str, ...] = ()
    """Why files are not used, a sentence each."""

    def get(self, name: str) -> Command | None:
        """Return the command of this name, or None."""
        return next((each for each in self.commands if each.name == name), None)


def find_commands(places: Iterable[Place], prefixes: dict[Path, str] | None = None) -> FoundCommands:
    """Return the commands in the folder `commands` of each place. Later places win."""
    by_name = {each.name: each for each in built_in_commands()}
    refused: list[str] = []
    for place in places:
        prefix = (prefixes or {}).get(place.path, "")
        for folder, file in _files(place.below("commands"), DEEPEST):
            path = folder.path / file
            inside = path.relative_to(place.path / "commands").with_suffix("")
            try:
                command = _read(folder, path, ":".join(filter(None, (prefix, *inside.parts))))
            except (OSError, ValueError) as error:
                refused.append(f"{clean(str(path))}: {error}; the command is not used")
            else:
                by_name.pop(command.name, None)
                by_name[command.name] = command
    return FoundCommands(tuple(by_name.values()), tuple(refused))


def built_in_commands() -> list[Command]:
    """Return the commands that every folder has."""
    return [Command("init", prompt("init"), "write an AGENTS.md for this repository", "what to stress")]


def _files(folder: Place, depth: int) -> Iterator[tuple[Place, str]]:
    for name in folder.names()[:MOST_ENTRIES]:
        if name.endswith(".md"):
            yield folder, name
        elif depth and not name.startswith(".") and _is_folder(folder, folder.path / name):
            yield from _files(folder.below(name), depth - 1)


def _is_folder(place: Place, path: Path) -> bool:
    """Return whether to look into a folder. Not by a project's links: a thousand that lead back would never end."""
    return path.is_dir() and not (place.is_project and path.is_symlink())


def _read(folder: Place, path: Path, name: str) -> Command:
    if problem := folder.problem(path):
        raise ValueError(problem)
    text = clean(read_regular_file(path, MAX_BYTES).decode("utf-8-sig", errors="replace"))
    return read_command(name, text, path, folder.label)
