"""Pictures that the user gives: dropped files, and the clipboard."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from outrider.coding.command_environment import command_environment
from outrider.processes.programs import Programs
from outrider.processes.starting import run
from outrider.temporary_folder import TemporaryFolder

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

    def picture(self) -> Path | None:
        """Write the picture in the clipboard to a file and return its path; None if there is no picture."""
        data = next(filter(None, map(self._output, picture_commands(self._environment))), b"")
        if not data.startswith(b"\x89PNG"):
            return None
        self._folder = self._folder or TemporaryFolder()
        self._count += 1
        path = self._folder.path / f"pasted-{self._count}.png"
        path.write_bytes(data)
        return path

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
        """Delete the files."""
        if self._folder:
            self._folder.remove()


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
