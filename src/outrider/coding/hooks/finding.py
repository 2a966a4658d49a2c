"""Find the hooks of a folder: the user's own, and those that the user has agreed to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from outrider.coding.config.files import MAX_BYTES, read_regular_file
from outrider.coding.config.loading import label_of
from outrider.coding.consent.check import StartCheck
from outrider.coding.consent.item import ConsentItem, variables_in
from outrider.coding.consent.store import Consents
from outrider.coding.hooks.hook_command import HookCommand, read_hooks
from outrider.coding.places import Place
from outrider.environment import config_file, data_folder
from outrider.text import clean

FILES = {".claude": ("settings.json", "settings.local.json"), ".agents": ("hooks.json",), ".outrider": ("hooks.json",)}
"""The files with hooks in each folder for agents."""


class FoundHooks(msgspec.Struct, frozen=True):
    """The hooks of a folder."""

    hooks: tuple[HookCommand, ...] = ()
    waiting: tuple[ConsentItem, ...] = ()
    """The hooks that need the user's consent: they are programs that run on their own."""
    agreed: tuple[ConsentItem, ...] = ()
    notes: tuple[str, ...] = ()
    """What is wrong with a file or a hook. Such a hook is left out; the others are used."""


def find_hooks(places: Iterable[Place], folder: Path, more: Sequence[str] = ()) -> FoundHooks:
    """Return the hooks of a folder: in the files of each place, and in `more` files that the settings name."""
    finding = _Finding(folder)
    own = config_file().parent / "hooks.json"
    finding.add_own(own, is_users=True)
    for each in more:
        finding.add_own(Path(each), is_users=False)
    for place in places:
        for name in FILES.get(place.path.name, ()):
            finding.add_project(place.path / name, place, f"{place.label}/{name}")
    return FoundHooks(tuple(finding.hooks), tuple(finding.waiting), tuple(finding.agreed), tuple(finding.notes))


class _Finding:
    """Collects hooks from one file after the other."""

    def __init__(self, folder: Path) -> None:
        self.hooks: list[HookCommand] = []
        self.waiting: list[ConsentItem] = []
        self.agreed: list[ConsentItem] = []
        self.notes: list[str] = []
        self._folder = folder
        self._consents = Consents(data_folder())

    def add_own(self, path: Path, *, is_users: bool) -> None:
        """Add the hooks of a file of the user, or of one that the settings name."""
        for hook in self._read(path, label_of(path), None):
            self.hooks.append(msgspec.structs.replace(hook, is_users=is_users))

    def add_project(self, path: Path, place: Place, label: str) -> None:
        """Add the hooks of a file that the user has agreed to."""
        for number, hook in enumerate(self._read(path, label, place), 1):
            item = hook_item(hook, path, number, path.parent.parent, self._folder)
            if self._consents.is_given(item):
                self.agreed.append(item)
                self.hooks.append(msgspec.structs.replace(hook, before_run=StartCheck(item, self._consents)))
            else:
                self.waiting.append(item)

    def _read(self, path: Path, label: str, place: Place | None) -> list[HookCommand]:
        content, problem = _read(path, place)
        if problem:
            self.notes.append(f"{clean(label)}: {problem}; its hooks are not used")
        found, remarks = read_hooks(_parsed(content), clean(label)) if content else ([], [])
        self.notes += remarks
        return found


def hook_item(hook: HookCommand, file: Path, number: int, project: Path, folder: Path) -> ConsentItem:
    """Return what the user agrees to: the hook with this number in a file, and what its command names."""
    matcher = [("for the tools", hook.matcher)] if hook.matcher else []
    names = variables_in([hook.command])
    read = [("reads", f"{name} from the environment of commands, which has no secrets") for name in names]
    where = "in the sandbox, if there is one and hooks.access is not full"
    return ConsentItem(
        kind="hook",
        name=f"{hook.event} {number}",
        file=file,
        declaration=[hook.event, hook.matcher, hook.command, hook.seconds],
        fields=(
            *matcher,
            ("command", hook.command),
            ("ends after", f"{hook.seconds:g} seconds"),
            *read,
            ("runs", f"on its own, {where}, in {folder}"),
        ),
        lines=(hook.line(project, folder),),
    )


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
