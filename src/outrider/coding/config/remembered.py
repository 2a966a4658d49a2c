"""Rules that the user has allowed for good, project by project: the answer "always"."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from outrider.coding.config.kinds import rule_fault
from outrider.coding.config.private_files import folder_of, locked, read_private, remove_private, write_private


class _Rules(msgspec.Struct, frozen=True):
    project: str
    allow: tuple[str, ...] = ()


class RememberedRules:
    """The rules of one project. They are kept in the user's data folder, so that no project brings its own."""

    def __init__(self, folder: Path, project: Path) -> None:
        self._project = str(project.resolve()).encode(errors="backslashreplace").decode()
        self._folder = folder_of(project, folder)
        self.path = self._folder / "rules.json"
        """The file, which a person can read and edit."""

    def rules(self) -> tuple[str, ...]:
        """All of them, oldest first. What cannot be read or understood counts as never said."""
        try:
            found = msgspec.json.decode(read_private(self.path), type=_Rules)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return ()
        if found.project != self._project:
            return ()
        return tuple(rule for rule in found.allow if not rule_fault(rule))

    def add(self, rules: Sequence[str]) -> None:
        """Remember these as well, whoever else adds some at the same time. Raises ConfigError if the disk refuses."""
        with locked(self._folder):
            known = self.rules()
            kept = _Rules(self._project, tuple(dict.fromkeys((*known, *rules))))
            if kept.allow != known:
                write_private(self.path, msgspec.json.format(msgspec.json.encode(kept), indent=2) + b"\n")

    def forget(self) -> bool:
        """Have none any more; whether there were some."""
        if not self.path.exists():
            return False
        with locked(self._folder):
            remove_private(self.path)
        return True
