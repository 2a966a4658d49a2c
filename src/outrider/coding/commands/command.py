"""Commands: prompts with places for arguments, files and shell output; finding those of a folder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from outrider.coding.frontmatter import as_list, split
from outrider.coding.places import MOST_ENTRIES, Place
from outrider.coding.settings_files import read_regular_file
from outrider.prompts import prompt
from outrider.text import clean, shell_words
from outrider.text.visible import one_line

Kind: TypeAlias = Literal["text", "shell", "file"]
LONGEST_DESCRIPTION = 200
_PIECES = re.compile(r'!`([^`\n]+)`|(?<!\S)@(?:"([^"\n]+)"|([^\s`]*[\w/$*\])}]))')
_ARGUMENT = re.compile(r"\$ARGUMENTS(?:\[(\d{1,2})\])?|\$(\d{1,2})")
_NAME = re.compile(r"[^\W_][\w.-]*(?::[^\W_][\w.-]*)*")


class Command(msgspec.Struct, frozen=True):
    """One command."""

    name: str
    text: str
    """What is sent, before arguments are filled in."""
    description: str = ""
    hint: str = ""
    """Its arguments, as in `[file] [style]`."""
    path: Path | None = None
    """The file; None for a built-in command."""
    origin: str = "built in"
    """For people."""
    remarks: tuple[str, ...] = ()
    """What the file has that is ignored."""

    def pieces(self, arguments: str) -> list[tuple[Kind, str]]:
        """Return the text in pieces, with the arguments filled in: text, shell commands to run, and files to attach.

        Only the command's own text names shell commands: an argument cannot add one.

        >>> Command("x", "Look at @$1: !`git log $1`").pieces("a.py")
        [('text', 'Look at '), ('file', 'a.py'), ('text', ': '), ('shell', 'git log a.py')]
        """
        words = shell_words(arguments)
        pieces = [(kind, _filled(text, arguments, words)) for kind, text in self._template()]
        if arguments.strip() and not _ARGUMENT.search(self.text):
            pieces.append(("text", f"\n\nArguments: {arguments.strip()}"))
        return [piece for piece in pieces if piece[1]]

    @property
    def shell_commands(self) -> list[str]:
        """The shell commands that it runs, as they are written."""
        return [text for kind, text in self._template() if kind == "shell"]

    def _template(self) -> Iterator[tuple[Kind, str]]:
        end = 0
        for found in _PIECES.finditer(self.text):
            yield "text", self.text[end : found.start()]
            yield ("shell", found[1]) if found[1] else ("file", found[2] or found[3])
            end = found.end()
        yield "text", self.text[end:]


def read_command(name: str, text: str, path: Path, origin: str) -> Command:
    """Return the command in a file. Raises ValueError if it cannot be used."""
    if not _NAME.fullmatch(name) or len(name) > 100:
        raise ValueError("the name of a command must have only letters, digits, '-', '_' and '.'")
    fields, body = split(text)
    if not body.strip():
        raise ValueError("the file has no text to send")
    hint = fields.get("argument-hint", "")
    remarks = ["allowed-tools is ignored: a command allows nothing"] if "allowed-tools" in fields else []
    remarks += ["model is ignored: the session keeps its model"] if "model" in fields else []
    return Command(
        name,
        body,
        one_line(str(fields.get("description") or body.strip().partition("\n")[0].lstrip("# ")), LONGEST_DESCRIPTION),
        one_line(f"[{', '.join(as_list(hint))}]" if isinstance(hint, list) else str(hint), LONGEST_DESCRIPTION),
        path,
        origin,
        tuple(remarks),
    )


def _filled(text: str, arguments: str, words: list[str]) -> str:
    def value(found: re.Match[str]) -> str:
        if found[2] is None and found[1] is None:
            return arguments.strip()
        place = int(found[2]) - 1 if found[2] is not None else int(found[1])
        return words[place] if 0 <= place < len(words) else ""

    return _ARGUMENT.sub(value, text)


MAX_BYTES = 64 * 1024
DEEPEST = 3
"""Folders inside a folder of commands: `frontend/review.md` is `/frontend:review`."""


class FoundCommands(msgspec.Struct, frozen=True):
    """The commands of a folder, and what was refused."""

    commands: tuple[Command, ...] = ()
    refused: tuple[str, ...] = ()
    """Why files are not used, a sentence each."""

    def get(self, name: str) -> Command | None:
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
