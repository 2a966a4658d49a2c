"""What the user has chosen, kept for later: rules approved with "always", and the model and effort of the chat."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from outrider.coding.config.value_types import rule_problem
from outrider.coding.repository import repository_folders, repository_of
from outrider.coding.settings_files import locked, project_folder, read_private, remove_private, write_private
from outrider.struct_types import described


class _Rules(msgspec.Struct, frozen=True, omit_defaults=True):
    project: str
    allow: tuple[str, ...] = ()
    """For sessions in this very folder."""
    repository: tuple[str, ...] = ()
    """For sessions in all folders and worktrees of the repository that the folder stands for."""


class _RuleFile:
    """The rules of one folder, in the user's data folder: a project cannot bring its own."""

    def __init__(self, data: Path, project: Path) -> None:
        self._project = str(project.resolve()).encode(errors="backslashreplace").decode()
        self._folder = project_folder(project, data)
        self.path = self._folder / "rules.json"

    def read(self) -> _Rules:
        """Return the rules. A file or a rule that cannot be read is ignored."""
        try:
            found = msgspec.json.decode(read_private(self.path), type=described(_Rules))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return _Rules(self._project)
        if found.project != self._project:
            return _Rules(self._project)
        own, shared = (
            tuple(each for each in part if not rule_problem(each)) for part in (found.allow, found.repository)
        )
        return _Rules(self._project, own, shared)

    def change(self, add: Sequence[str] = (), remove: Sequence[str] = (), *, shared: bool) -> bool:
        """Add and remove rules. Other processes may do so at the same time. Return whether there is a difference.

        Raises ConfigError if writing fails.
        """
        name = "repository" if shared else "allow"
        with locked(self._folder):
            known = self.read()
            rules = dict.fromkeys((*getattr(known, name), *add))
            kept = msgspec.structs.replace(known, **{name: tuple(rule for rule in rules if rule not in remove)})
            if kept == known:
                return False
            write_private(self.path, msgspec.json.format(msgspec.json.encode(kept), indent=2) + b"\n")
        return True


class RememberedRules:
    """The rules for sessions in one folder: its own, and those of its repository."""

    def __init__(self, data: Path, folder: Path) -> None:
        self.repository = repository_of(folder)
        self._own = _RuleFile(data, folder)
        self._shared = _RuleFile(data, self.repository) if self.repository else None

    @property
    def path(self) -> Path:
        """The file of the folder's own rules. The user may edit it."""
        return self._own.path

    def path_for(self, rules: Sequence[str]) -> Path:
        return (self._shared if self._shared and self.is_for_repository(rules) else self._own).path

    def is_for_repository(self, rules: Sequence[str]) -> bool:
        """Return whether these rules hold in the whole repository."""
        from outrider.coding.permissions.rules import is_shared  # the settings need no rules

        return self._shared is not None and is_shared(rules)

    @property
    def own(self) -> tuple[str, ...]:
        """The rules of the folder, oldest first."""
        return self._own.read().allow

    @property
    def shared(self) -> tuple[str, ...]:
        """The rules of the repository, oldest first."""
        return self._shared.read().repository if self._shared else ()

    def rules(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.own, *self.shared)))

    def add(self, rules: Sequence[str]) -> None:
        """Add rules: for the repository, or those for files for the folder. Raises ConfigError if writing fails."""
        if self._shared and self.is_for_repository(rules):
            self._shared.change(rules, shared=True)
        else:
            self._own.change(rules, shared=False)

    def remove(self, rule: str) -> bool:
        """Remove one rule. Return whether it was there. Raises ConfigError if writing fails."""
        found = self._own.change(remove=[rule], shared=False)
        return (self._shared is not None and self._shared.change(remove=[rule], shared=True)) or found

    def forget(self) -> bool:
        """Remove all rules, also those of the repository. Return whether there were any."""
        found = self._shared is not None and self._shared.change(remove=self.shared, shared=True)
        return remove_private(self._own.path) or found


class Choice(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the next chat begins with. None for what the settings say."""

    repository: str = ""
    model: str | None = None
    effort: str | None = None


class ChosenModel:
    """The choice for one repository. It is stored in the user's data folder, so that a project cannot bring one."""

    def __init__(self, data: Path, folder: Path) -> None:
        root = repository_folders(folder)[0]
        self._repository = str(root).encode(errors="backslashreplace").decode()
        self._folder = project_folder(root, data)
        self._path = self._folder / "model.json"

    def read(self) -> Choice:
        """Return the choice. A file that cannot be read has none."""
        try:
            found = msgspec.json.decode(read_private(self._path), type=described(Choice))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return Choice()
        return found if found.repository == self._repository else Choice()

    def remember(self, **chosen: str | None) -> None:
        """Replace the model or the effort; None forgets it. Raises ConfigError if writing fails."""
        with locked(self._folder):
            choice = msgspec.structs.replace(self.read(), repository=self._repository, **chosen)
            write_private(self._path, msgspec.json.encode(choice) + b"\n")
