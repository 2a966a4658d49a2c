"""The rules that the user has approved with "always", by project."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from outrider.coding.config.value_types import rule_problem
from outrider.coding.settings_files import locked, project_folder, read_private, remove_private, write_private
from outrider.struct_types import described


class _Rules(msgspec.Struct, frozen=True):
    project: str
    allow: tuple[str, ...] = ()


class RememberedRules:
    """The rules of one project. They are stored in the user's data folder, so that a project cannot bring its own."""

    def __init__(self, folder: Path, project: Path) -> None:
        self._project = str(project.resolve()).encode(errors="backslashreplace").decode()
        self._folder = project_folder(project, folder)
        self.path = self._folder / "rules.json"
        """The file. The user may edit it."""

    def rules(self) -> tuple[str, ...]:
        """Return the rules, oldest first. A file or a rule that cannot be read is ignored."""
        try:
            found = msgspec.json.decode(read_private(self.path), type=described(_Rules))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return ()
        if found.project != self._project:
            return ()
        return tuple(rule for rule in found.allow if not rule_problem(rule))

    def add(self, rules: Sequence[str]) -> None:
        """Add rules. Other processes may add some at the same time. Raises ConfigError if writing fails."""
        with locked(self._folder):
            known = self.rules()
            kept = tuple(dict.fromkeys((*known, *rules)))
            if kept != known:
                self._write(kept)

    def remove(self, rule: str) -> bool:
        """Remove one rule. Return whether it was there. Raises ConfigError if writing fails."""
        with locked(self._folder):
            known = self.rules()
            if rule not in known:
                return False
            self._write(tuple(each for each in known if each != rule))
        return True

    def _write(self, rules: tuple[str, ...]) -> None:
        kept = msgspec.json.encode(_Rules(self._project, rules))
        write_private(self.path, msgspec.json.format(kept, indent=2) + b"\n")

    def forget(self) -> bool:
        """Remove all rules. Return whether there were any."""
        if not self.path.exists():
            return False
        with locked(self._folder):
            remove_private(self.path)
        return True
