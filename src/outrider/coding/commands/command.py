"""A command: the text of a prompt with places for arguments, files and the output of shell commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from outrider.coding.frontmatter import as_list, split
from outrider.visible_text import one_line

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
        words = _words(arguments)
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
        one_line(str(fields.get("description") or _first_line(body)), LONGEST_DESCRIPTION),
        one_line(f"[{', '.join(as_list(hint))}]" if isinstance(hint, list) else str(hint), LONGEST_DESCRIPTION),
        path,
        origin,
        tuple(remarks),
    )


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0].lstrip("# ")


def _filled(text: str, arguments: str, words: list[str]) -> str:
    def value(found: re.Match[str]) -> str:
        if found[2] is None and found[1] is None:
            return arguments.strip()
        place = int(found[2]) - 1 if found[2] is not None else int(found[1])
        return words[place] if 0 <= place < len(words) else ""

    return _ARGUMENT.sub(value, text)


def _words(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:  # a quote that does not close, as in a sentence with an apostrophe
        return arguments.split()
