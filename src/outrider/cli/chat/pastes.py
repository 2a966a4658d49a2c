"""What the user pastes: long texts, which the line shows as `[600 pasted lines]`, dropped files and pictures."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from prompt_toolkit.history import FileHistory

from outrider.coding.command_environment import command_environment
from outrider.errors import OutriderError
from outrider.processes.programs import Programs
from outrider.processes.starting import run
from outrider.temporary_folder import TemporaryFolder

MOST_LINES, MOST_CHARACTERS = 10, 2_000
"""Pastes up to this size stay as they are."""
_BEGIN, _END = "\x1b[200~", "\x1b[201~"
"""Around a paste in the history file, as terminals send it."""
_MARKED = re.compile(f"{re.escape(_BEGIN)}(.*?){re.escape(_END)}", re.DOTALL)


class Pastes:
    """The long pastes of a chat, by the words that stand for them in the line."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def collapse(self, text: str) -> str:
        """Return the words that stand for a long text; a short text unchanged."""
        lines = text.count("\n") + (not text.endswith("\n"))
        if lines <= MOST_LINES and len(text) <= MOST_CHARACTERS:
            return text
        size = f"{lines:,} pasted lines" if lines > MOST_LINES else f"{len(text):,} pasted characters"
        number, words = 1, f"[{size}]"
        while self._texts.get(words, text) != text:
            number += 1
            words = f"[{size}, {number}]"
        self._texts[words] = text
        return words

    def expand(self, line: str) -> str:
        return self._replaced(line, "", "")

    def marked(self, line: str) -> str:
        """Return the line with the pasted texts between marks, for the history file."""
        return self._replaced(line, _BEGIN, _END)

    def unmarked(self, stored: str) -> str:
        """Return a line of the history file with its pasted texts collapsed."""
        return _MARKED.sub(lambda found: self.collapse(found[1]), stored)

    def at_end(self, line: str) -> str:
        """Return the words at the end of the line that stand for a paste, or ""."""
        return next((words for words in self._texts if line.endswith(words)), "")

    def _replaced(self, line: str, before: str, after: str) -> str:
        if not self._texts:
            return line
        pattern = "|".join(map(re.escape, self._texts))
        return re.sub(pattern, lambda found: f"{before}{self._texts[found[0]]}{after}", line)


class PasteHistory(FileHistory):
    """The typed lines in a file, with the whole text of their pastes; recalled lines show them collapsed."""

    def __init__(self, file: Path, pastes: Pastes) -> None:
        self._pastes = pastes
        super().__init__(str(file))

    def load_history_strings(self) -> Iterable[str]:
        """Yield the stored lines, the newest first."""
        for stored in super().load_history_strings():
            yield self._pastes.unmarked(stored)

    def store_string(self, string: str) -> None:
        """Store a line, unless it may have a key in it."""
        if string.lstrip().startswith("/login"):
            return
        super().store_string(self._pastes.marked(string))


KINDS = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf")
"""Dropped files of these kinds are attached; other paths stay text."""
SECONDS = 5.0
LARGEST = 50_000_000


def dropped_files(pasted: str) -> list[Path]:
    """Return the files if a paste is nothing but paths of pictures and PDFs, as terminals paste dropped files.

    >>> dropped_files("see /tmp/a.png")
    []
    """
    if len(pasted) > 10_000 or not any(kind in pasted.lower() for kind in KINDS):
        return []
    try:
        words = shlex.split(pasted)
    except ValueError:
        return []
    paths = [Path(unquote(urlsplit(word).path) if word.startswith("file://") else word) for word in words]
    return paths if paths and all(map(_is_picture, paths)) else []


def mention(path: Path) -> str:
    """Return the words that attach a file to the message."""
    text = str(path)
    return f'@"{text}"' if any(character.isspace() for character in text) else f"@{text}"


class Clipboard:
    """The pictures that the user pasted from the clipboard, as files that live as long as the chat."""

    def __init__(self, environment: Mapping[str, str], programs: Programs) -> None:
        self._environment = environment
        self._programs = programs
        self._folder: TemporaryFolder | None = None
        self._count = 0

    def picture(self) -> Path:
        """Write the picture in the clipboard to a file and return its path. Raises OutriderError if there is none."""
        commands = picture_commands(self._environment)
        data = next(filter(None, map(self._output, commands)), b"")
        if not data.startswith(b"\x89PNG"):
            raise OutriderError(self._why(commands))
        self._folder = self._folder or TemporaryFolder()
        self._count += 1
        path = self._folder.path / f"pasted-{self._count}.png"
        path.write_bytes(data)
        return path

    def _why(self, commands: Sequence[Sequence[str]]) -> str:
        if not commands:
            return "There is no clipboard here: neither WAYLAND_DISPLAY nor DISPLAY is set. @path attaches a file."
        if not any(self._programs.find(command[0]) for command in commands):
            return f"To paste pictures, install {' or '.join(PACKAGES[command[0]] for command in commands)}."
        return "There is no picture in the clipboard."

    def _output(self, command: Sequence[str]) -> bytes:
        program = self._programs.find(command[0])
        if program is None:
            return b""
        environment = {**command_environment(self._environment), "PATH": self._programs.path}
        try:
            ended = run([program, *command[1:]], environment=environment, seconds=SECONDS)
        except OSError:
            return b""
        return ended.output if ended.code == 0 and len(ended.output) <= LARGEST else b""

    def close(self) -> None:
        if self._folder:
            self._folder.remove()


PACKAGES = {"wl-paste": "wl-clipboard", "xclip": "xclip", "pngpaste": "pngpaste"}
"""The programs that print the clipboard, and what to install for each."""


def picture_commands(environment: Mapping[str, str]) -> list[list[str]]:
    """Return the commands that may print the clipboard as PNG."""
    commands = []
    if environment.get("WAYLAND_DISPLAY"):
        commands.append(["wl-paste", "--type", "image/png"])
    if environment.get("DISPLAY"):
        commands.append(["xclip", "-selection", "clipboard", "-target", "image/png", "-out"])
    if sys.platform == "darwin":
        commands.append(["pngpaste", "-"])
    return commands


def _is_picture(path: Path) -> bool:
    return path.is_absolute() and path.suffix.lower() in KINDS and os.path.isfile(path)
