"""Find the hooks of a folder: the user's own, and those that the user has agreed to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from outrider.coding.config.consent import Consents
from outrider.coding.config.files import MAX_BYTES, read_regular_file
from outrider.coding.config.loading import digests_of, label_of
from outrider.coding.hooks.hook_command import HookCommand, read_hooks
from outrider.coding.places import Place
from outrider.environment import config_file, data_folder
from outrider.text import clean

FILES = {".claude": ("settings.json", "settings.local.json"), ".agents": ("hooks.json",), ".outrider": ("hooks.json",)}
"""The files with hooks in each folder for agents."""


class HookConsent(msgspec.Struct, frozen=True):
    """The hooks of one file that need the user's consent: they are programs that run on their own."""

    file: Path
    content: bytes
    """What the consent covers: the file as it is now, and the project's files that its commands name."""
    hooks: tuple[HookCommand, ...]

    def give(self) -> None:
        """Store the user's consent. Raises ConfigError if writing fails."""
        Consents(data_folder()).give(self.file, self.content)


class FoundHooks(msgspec.Struct, frozen=True):
    """The hooks of a folder."""

    hooks: tuple[HookCommand, ...] = ()
    waiting: tuple[HookConsent, ...] = ()
    notes: tuple[str, ...] = ()
    """What is wrong with a file or a hook. Such a hook is left out; the others are used."""

    @property
    def waiting_note(self) -> str:
        """A sentence for the user if hooks wait for consent, or "". It contains nothing from the files."""
        count = sum(len(each.hooks) for each in self.waiting)
        if not count:
            return ""
        return f"{count} hook{'s' if count > 1 else ''} in files that you have not agreed to: outrider hooks trust"


def find_hooks(places: Iterable[Place], more: Sequence[str] = ()) -> FoundHooks:
    """Return the hooks in the files of each place, and in `more` files that the settings name."""
    hooks: list[HookCommand] = []
    waiting: list[HookConsent] = []
    notes: list[str] = []
    own = config_file().parent / "hooks.json"
    files: list[tuple[Path, str, Place | None]] = [(own, label_of(own), None)]
    files += [(Path(each), label_of(Path(each)), None) for each in more]
    for place in places:
        names = FILES.get(place.path.name, ())
        files += [(place.path / name, f"{place.label}/{name}", place) for name in names]
    for path, label, found_in in files:
        content, problem = _read(path, found_in)
        if problem:
            notes.append(f"{clean(label)}: {problem}; its hooks are not used")
        if not content:
            continue
        found, remarks = read_hooks(_parsed(content), clean(label))
        notes += remarks
        if not found:
            continue
        consent = HookConsent(path, content + digests_of(_words(found), _root(path)), tuple(found))
        if found_in is None or Consents(data_folder()).is_given(path, consent.content):
            hooks += found
        else:
            waiting.append(consent)
    return FoundHooks(tuple(hooks), tuple(waiting), tuple(notes))


def hook_files(places: Iterable[Place]) -> list[Path]:
    """Return the files of these places that may have hooks."""
    return [place.path / name for place in places for name in FILES.get(place.path.name, ())]


def _read(path: Path, place: Place | None) -> tuple[bytes, str]:
    """Return the content of a file with hooks, and what is wrong with it. A file without them is empty."""
    if not path.exists():
        return b"", ""
    if place and (problem := place.problem(path)):
        return b"", problem
    try:
        content = read_regular_file(path, MAX_BYTES)
    except (OSError, ValueError) as error:
        return b"", f"it cannot be read: {error.strerror if isinstance(error, OSError) else error}"
    data = _parsed(content)
    if data is None:
        return b"", "it is not JSON"
    return (content, "") if isinstance(data, dict) and data.get("hooks") else (b"", "")


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None


def _words(hooks: Iterable[HookCommand]) -> list[str]:
    return [word for hook in hooks for word in hook.words]


def _root(path: Path) -> Path:
    """Return the folder where the hooks of a file run: the one around the folder for agents."""
    return path.parent.parent
