"""Things of a project that need the user's consent: settings, hooks, MCP servers, plugins; the stored consents.

The consents of a user are in one file for each folder with something to agree to. Programs are checked before each
start.
"""

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
from outrider.coding.consent.coverage import Coverage, TooMuchError, cover
from outrider.coding.settings_files import locked, project_folder, read_private, remove_private, write_private
from outrider.filesystem import is_within
from outrider.struct_types import described
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


MAX_CONTENTS = 20
"""Contents of one thing that are remembered, so that switching back to an older branch does not ask again."""
_MOST_PARTS = 200


class Agreed(msgspec.Struct, frozen=True):
    """One consent."""

    digest: str
    sent: tuple[str, ...] = ()
    """The variables with secrets that the user confirmed by name."""
    parts: dict[str, str] = {}
    """The digest of each part, to say later what has changed."""


class _Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    folder: str
    agreed: dict[str, tuple[Agreed, ...]]


class Consents:
    """The consents of a user."""

    def __init__(self, data: Path) -> None:
        self._data = data

    def is_given(self, item: ConsentItem) -> bool:
        """Return whether the user has agreed to this as it is, with every secret. A damaged store is no consent."""
        return any(each.digest == item.digest and set(item.secrets) <= set(each.sent) for each in self._agreed(item))

    def changes(self, item: ConsentItem) -> list[str] | None:
        """Return the parts that differ from the latest consent; None if there was none."""
        agreed = self._agreed(item)
        if not agreed:
            return None
        before, now = agreed[-1].parts, item.parts
        return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))

    def give(self, items: Iterable[ConsentItem], sent: Sequence[str] = ()) -> None:
        """Store consents. `sent` are the confirmed secrets. Raises ConfigError if writing fails."""
        by_folder: dict[Path, list[ConsentItem]] = {}
        for item in items:
            by_folder.setdefault(consent_folder(item.file), []).append(item)
        for folder, several in by_folder.items():
            path = self._path(folder)
            with locked(path.parent):
                agreed = self._read(folder)
                for item in several:
                    agreed[_key(item)] = _with(agreed.get(_key(item), ()), item, sent)
                stored = _Stored(_name(folder), agreed)
                write_private(path, msgspec.json.format(msgspec.json.encode(stored), indent=2) + b"\n")

    def forget(self, folder: Path) -> bool:
        """Remove every consent to things of this folder. Return whether there was one."""
        return remove_private(self._path(folder))

    def _agreed(self, item: ConsentItem) -> tuple[Agreed, ...]:
        return self._read(consent_folder(item.file)).get(_key(item), ())

    def _read(self, folder: Path) -> dict[str, tuple[Agreed, ...]]:
        try:
            stored = msgspec.json.decode(read_private(self._path(folder)), type=described(_Stored))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return {}
        return stored.agreed if stored.folder == _name(folder) else {}

    def _path(self, folder: Path) -> Path:
        return project_folder(folder, self._data) / "consent.json"


def consent_folder(file: Path) -> Path:
    """Return the folder that has a file: the one around `.outrider`, `.agents` or `.claude`, if the file is in one."""
    for folder in file.parents:
        if folder.name in (".outrider", ".agents", ".claude"):
            return folder.parent
    return file.parent


def _with(agreed: tuple[Agreed, ...], item: ConsentItem, sent: Sequence[str]) -> tuple[Agreed, ...]:
    earlier = [Agreed(each.digest, each.sent) for each in agreed if each.digest != item.digest]
    parts = {_text(name): digest for name, digest in item.parts.items()} if len(item.parts) <= _MOST_PARTS else {}
    confirmed = tuple(name for name in item.secrets if name in sent)
    return (*earlier[-MAX_CONTENTS + 1 :], Agreed(item.digest, confirmed, parts))


def _key(item: ConsentItem) -> str:
    inside = os.path.relpath(item.file, consent_folder(item.file))
    return _text(f"{item.kind} {inside} {item.name}")


def _name(folder: Path) -> str:
    return _text(str(folder.resolve()))


def _text(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


_MOST_NAMED = 3


class StartCheck:
    """Says why a program must not start now, or "". It reads every covered file again. Blocks."""

    def __init__(self, item: ConsentItem, consents: Consents) -> None:
        """`item` is what the user has agreed to, as it was when the session began."""
        self._item = item
        self._consents = consents

    def __call__(self) -> str:
        try:
            now = self._item.now()
            if now.digest == self._item.digest or self._consents.is_given(now):
                return ""
            changed = [name for name in now.parts if now.parts[name] != self._item.parts.get(name)]
            changed += [name for name in self._item.parts if name not in now.parts]
        except TooMuchError as error:
            return self._sentence(str(error))
        folder = consent_folder(self._item.file)
        names = ", ".join(shown_path(name, folder) for name in changed[:_MOST_NAMED])
        more = f" and {len(changed) - _MOST_NAMED} more" if len(changed) > _MOST_NAMED else ""
        return self._sentence(f"{names}{more} changed since you agreed to it")

    def _sentence(self, why: str) -> str:
        title = clean(self._item.title)
        return f"The {title} is not started: {why}. To look at it and agree again: outrider trust"
