"""What a session may do: the mode, the rules, and the folders in which it works."""

from __future__ import annotations

import os.path
from pathlib import Path

import msgspec

from outrider.coding.permissions.question import Mode
from outrider.coding.permissions.rules import Rule
from outrider.coding.permissions.secrets import SECRETS


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What is decided by; never changed, only replaced.

    The first of these that speaks of a call decides: rules that deny; secrets; the mode `plan`, which denies whatever
    is not a read; rules that ask; rules that allow; the mode.
    """

    folder: Path
    """The project, resolved: what is inside may be read in every mode."""
    mode: Mode = "ask"
    folders: tuple[Path, ...] = ()
    """Other folders that count as inside."""
    allow: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    secrets: tuple[str, ...] = SECRETS
    """Patterns of files that are denied in every mode, to read and to write; no rule opens them."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "folder", Path(os.path.realpath(self.folder)))
        msgspec.structs.force_setattr(self, "folders", tuple(Path(os.path.realpath(each)) for each in self.folders))

    @property
    def inside(self) -> tuple[str, ...]:
        """The folders that count as inside."""
        return (str(self.folder), *map(str, self.folders))

    def allowing(self, rules: tuple[str, ...]) -> Policy:
        """The policy with more rules that allow. Raises ConfigError."""
        known = set(self.allow)
        new = tuple(rule for rule in map(Rule.parse, rules) if rule not in known)
        return msgspec.structs.replace(self, allow=(*self.allow, *new))
