"""What a command line does, as far as it can be read: its simple commands, its files, and what is in doubt."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

import msgspec

from outrider.coding.permissions.words import Word

_VARIABLE_NAME = re.compile(r"[a-z_][a-z0-9_]*")


class Assignment(msgspec.Struct, frozen=True):
    """A variable that is set."""

    name: str
    value: Word


class Command(msgspec.Struct, frozen=True):
    """A simple command: a name and its arguments."""

    words: tuple[Word, ...]
    """The name first."""
    source: str
    start: int
    """Where it stands, to know what comes before what."""
    assignments: tuple[Assignment, ...] = ()
    """Variables set for this command alone."""
    repeated: bool = False
    """Whether it may run again after what follows it: it stands in a loop."""
    fed: bool = False
    """Whether something is written to it: it stands behind a pipe, or reads from a file or a text."""

    @property
    def values(self) -> list[str | None]:
        """The words as programs get them; None for what is not known before."""
        return [word.value for word in self.words]

    @property
    def name(self) -> str | None:
        """The name of the program; None if it is not known before."""
        return self.words[0].value if self.words else None

    @property
    def title(self) -> str:
        """The command in a few words, for a person."""
        text = " ".join(self.source.split())
        return f"`{text[:60]}{'…' if len(text) > 60 else ''}`"

    @property
    def is_literal(self) -> bool:
        """Whether every word is known."""
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
    """Variables that are set for the rest of the script, those of loops among them."""
    variables: frozenset[str] = frozenset()
    """Variables that are shown somewhere."""
    listed: tuple[Word, ...] = ()
    """Words that loops go through: patterns among them list what is in folders."""
    doubts: tuple[str, ...] = ()
    """Why it cannot be relied on that this is all that it does; none if it can."""


def is_plain_variable(name: str) -> bool:
    """Whether setting a variable of this name touches nothing but the script: programs are led by upper-case ones."""
    if name in ("histchars", "auto_resume") or name.endswith("_proxy") or name.startswith("npm_config"):
        return False
    return bool(_VARIABLE_NAME.fullmatch(name))
