"""A parsed command line: its simple commands, its files, and its doubts."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

import msgspec

from outrider.coding.permissions.shell.words import Word

_VARIABLE_NAME = re.compile(r"[a-z_][a-z0-9_]*")


class Assignment(msgspec.Struct, frozen=True):
    """An assignment to a variable."""

    name: str
    value: Word


class Command(msgspec.Struct, frozen=True):
    """A simple command: a name and its arguments."""

    words: tuple[Word, ...]
    """The name first."""
    source: str
    start: int
    """Its position in the text, for ordering."""
    assignments: tuple[Assignment, ...] = ()
    """Variables set for this command alone."""
    repeated: bool = False
    """Whether it is in a loop, so that it may run again after later commands."""
    has_input: bool = False
    """Whether it has input from a pipe, a file or a text."""

    @property
    def values(self) -> list[str | None]:
        """The words as a program receives them; None for each that is unknown until it runs."""
        return [word.value for word in self.words]

    @property
    def name(self) -> str | None:
        """The name of the program; None if it is unknown until it runs."""
        return self.words[0].value if self.words else None

    @property
    def title(self) -> str:
        """The command in a few words, for people."""
        text = " ".join(self.source.split())
        return f"`{text[:60]}{'…' if len(text) > 60 else ''}`"

    @property
    def is_literal(self) -> bool:
        """Return whether every word is known."""
        return all(word.value is not None for word in self.words)


Access: TypeAlias = Literal["read", "write"]


class Redirection(msgspec.Struct, frozen=True):
    """A file that the shell opens."""

    access: Access
    target: Word
    start: int


class Script(msgspec.Struct, frozen=True):
    """A command line."""

    text: str
    commands: tuple[Command, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    """Variables that are set for the rest of the script, including those of loops."""
    variables: frozenset[str] = frozenset()
    """Variables that are expanded anywhere."""
    listed: tuple[Word, ...] = ()
    """Words that loops iterate over. Globs among them list folders."""
    doubts: tuple[str, ...] = ()
    """Why the script may do more than was found; none if it is certain."""


def is_plain_variable(name: str) -> bool:
    """Return whether setting this variable affects only the script: programs read upper-case variables."""
    if name in ("histchars", "auto_resume") or name.endswith("_proxy") or name.startswith("npm_config"):
        return False
    return bool(_VARIABLE_NAME.fullmatch(name))
