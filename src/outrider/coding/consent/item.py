"""One thing of a project that needs the user's consent: a setting, a hook, an MCP server, or a plugin."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from outrider.coding.command_environment import is_secret_variable
from outrider.coding.consent.command_line import CommandLine
from outrider.coding.consent.coverage import Coverage, cover
from outrider.filesystem import is_within
from outrider.text import clean, counted

Kind: TypeAlias = Literal["setting", "hook", "server", "plugin"]
NOUNS: dict[Kind, str] = {"setting": "setting", "hook": "hook", "server": "MCP server", "plugin": "plugin"}
_READ = re.compile(r"\$\{([A-Za-z_]\w*)|\$([A-Za-z_]\w*)")


class ConsentItem(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What the user agrees to: the declaration in a file, and the files that it names, as they are now."""

    kind: Kind
    name: str
    """Unique among the things of this kind in the file."""
    file: Path
    declaration: Any
    """The values of the file that say what happens. The form in which the file writes them does not count."""
    fields: tuple[tuple[str, str], ...] = ()
    """Every value, by name, for the person who is asked."""
    lines: tuple[CommandLine, ...] = ()
    folders: tuple[str, ...] = ()
    """Folders that are covered as a whole."""
    secrets: tuple[str, ...] = ()
    """The variables of the user that it reads and that look like secrets. Each must be confirmed by name."""

    def __post_init__(self) -> None:
        """Read the files now, and not when the digest is first asked for. Raises TooMuchError for `folders`."""
        _ = self.coverage

    @cached_property
    def coverage(self) -> Coverage:
        """The files that it names, as they were when this was made."""
        return cover(self.lines, self.folders)

    @cached_property
    def parts(self) -> dict[str, str]:
        """The digest of each part, by its name for people: the declaration, and each file."""
        declared = {f"{self.file}: {self.kind} {self.name}": _digest_of(self.declaration)}
        return declared | self.coverage.entries

    @cached_property
    def digest(self) -> str:
        """The digest of everything that the consent covers."""
        return _digest_of([self.kind, self.name, self.parts])

    @property
    def title(self) -> str:
        """What it is, for people."""
        return f"{NOUNS[self.kind]} {self.name}"

    def now(self) -> ConsentItem:
        """Return the same declaration, with the files as they are now. Raises TooMuchError."""
        return msgspec.structs.replace(self)


def _digest_of(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=list)
    return sha256(text.encode(errors="surrogateescape")).hexdigest()


def variables_in(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the variables that texts read, as in `${NAME:-default}` and `$NAME`."""
    found = (each[1] or each[2] for text in texts for each in _READ.finditer(text))
    return tuple(dict.fromkeys(found))


def secrets_among(names: Iterable[str], environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that look like secrets, by their names or their values now."""
    return tuple(name for name in names if is_secret_variable(name, environment.get(name, "")))


def waiting_note(items: Sequence[ConsentItem]) -> str:
    """Return a sentence for the user if something waits for consent, or "". It contains nothing from the project."""
    if not items:
        return ""
    counts = [
        counted(number, noun) for kind, noun in NOUNS.items() if (number := sum(item.kind == kind for item in items))
    ]
    if keys := [item.name for item in items if item.kind == "setting"]:  # names of our own
        counts[0] += f" ({', '.join(keys)})"
    joined = f"{', '.join(counts[:-1])} and {counts[-1]}" if len(counts) > 1 else counts[0]
    wait = "wait" if len(items) > 1 else "waits"
    return f"{joined} {wait} for your consent, not used until you agree: outrider trust"


def shown_path(path: str, project: Path) -> str:
    """Return a path for people: relative if it is in the project."""
    return clean(os.path.relpath(path, project) if is_within(path, str(project)) else path)
