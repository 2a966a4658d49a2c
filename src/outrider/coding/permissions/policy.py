"""The policy of a session: the mode, the rules and the folders, as values. `decision.py` decides by them."""

from __future__ import annotations

import os.path
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from outrider.coding.access import Access
from outrider.coding.own_places import OwnPlaces
from outrider.coding.permissions.question import Mode
from outrider.coding.permissions.rules import Rule, is_shared
from outrider.coding.protected_paths import SECRETS
from outrider.coding.repository import repository_of
from outrider.coding.wildcards import absolute, alternatives, escaped
from outrider.filesystem import is_within


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What decisions are based on. Immutable.

    The first of these that applies to a call decides: deny rules; secrets; the mode `plan`, which denies everything but
    reading; ask rules; allow rules; the mode.
    """

    folder: Path
    """The project's folder, resolved. Files inside may be read in every mode."""
    repository: Path | None = None
    """What stands for the repository of the folder, if there is one."""
    mode: Mode = "ask"
    max_mode: Mode = "all"
    """The loosest mode that can be chosen."""
    folders: tuple[Path, ...] = ()
    """More folders that count as inside."""
    allow: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    secrets: tuple[str, ...] = SECRETS
    """Patterns of files that are never read or written, in any mode and with any rule."""
    obeyed: tuple[str, ...] = ()
    """Files and folders of programs that hooks and MCP servers run. A model changes them only if the user agrees."""
    own: OwnPlaces = OwnPlaces()
    """Outrider's data and settings, which are never opened either."""
    sandboxed: bool = False
    """Whether a sandbox enforces the access levels of shell commands."""

    doubts: dict[Access, tuple[str, ...]] = {}
    """Why commands of an access level may do more than it says, in spite of the sandbox."""
    accepted: tuple[str, ...] = ()
    """The doubts that the user has accepted in this session."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "folder", Path(os.path.realpath(self.folder)))
        msgspec.structs.force_setattr(self, "folders", tuple(Path(os.path.realpath(each)) for each in self.folders))

    def moved(self, folder: Path) -> Policy:
        """Return the same policy for a worktree of the project."""
        old, new = str(self.folder), os.path.realpath(folder)
        inside = (f"{new}{each.removeprefix(old)}" for each in self.obeyed if each.startswith(f"{old}/"))
        return msgspec.structs.replace(self, folder=Path(new), obeyed=(*self.obeyed, *inside))

    @property
    def inside(self) -> tuple[str, ...]:
        """The folders that count as inside."""
        return (str(self.folder), *map(str, self.folders))

    def is_obeyed(self, path: str) -> bool:
        """Return whether hooks or MCP servers run an absolute path, or what is in it."""
        return any(is_within(path, each) for each in self.obeyed)

    def effective_access(self, access: Access) -> Access:
        """Return the access that a command really has: without a sandbox, everything the user can do."""
        return access if self.sandboxed else "full"

    def accepted_doubts(self, access: Access) -> tuple[str, ...] | None:
        """Return the doubts that do not matter for an access level; None if none does, as every command may run."""
        is_open = any(
            rule.tool == "Bash" and rule.pattern is None and rule.allows_access(access, sandboxed=True)
            for rule in self.allow
        )
        return None if self.mode == "all" or is_open else self.accepted

    def open_doubts(self, access: Access) -> tuple[str, ...]:
        """Return the doubts about an access level that the user has to accept."""
        accepted = self.accepted_doubts(access)
        return () if accepted is None else tuple(each for each in self.doubts.get(access, ()) if each not in accepted)

    @property
    def masked(self) -> tuple[str, ...]:
        """Patterns of the files that no command in a sandbox may read: secrets, and what rules for Read deny."""
        denied = (rule.pattern for rule in self.deny if rule.tool == "Read" and rule.pattern)
        patterns = (absolute(each, str(self.folder)) for pattern in denied for each in alternatives(pattern))
        return (*self.secrets, *(self._whole_folder(pattern) for pattern in patterns))

    def _whole_folder(self, pattern: str) -> str:
        """Return the folder for `folder/**`: one mask covers all of it, however many files there are."""
        folder = pattern.removesuffix("/**")
        return pattern if any(f"{escaped(each)}/".startswith(f"{folder}/") for each in self.inside) else folder

    def is_in_repository(self, folder: str) -> bool:
        """Return whether a folder belongs to the repository of the project."""
        return self.repository is not None and repository_of(folder) == self.repository

    def where(self, rules: Sequence[str]) -> str:
        """Return where rules apply that "always" stores, in words."""
        return "in this repository" if self.repository and is_shared(rules) else "in this folder"

    def allowing(self, rules: Sequence[str], *, shared: bool = False) -> Policy:
        """Return the policy with more allow rules, if `shared` for the whole repository. Raises ConfigError."""
        known = set(self.allow)
        parsed = (msgspec.structs.replace(rule, shared=shared) for rule in map(Rule.parse, rules))
        return msgspec.structs.replace(self, allow=(*self.allow, *(rule for rule in parsed if rule not in known)))

    def denying(self, rules: tuple[str, ...]) -> Policy:
        """Return the policy with more deny rules. Raises ConfigError."""
        known = set(self.deny)
        new = tuple(rule for rule in map(Rule.parse, rules) if rule not in known)
        return msgspec.structs.replace(self, deny=(*self.deny, *new))


Verdict: TypeAlias = Literal["allow", "ask", "deny"]


class Decision(msgspec.Struct, frozen=True):
    """The decision about a call, or about one part of it: a path, a command, a redirection."""

    verdict: Verdict
    reason: str
    """Why, for the user and the model; empty if it is allowed."""
    always: tuple[str, ...] = ()
    """The narrowest useful rules that would allow it; none if no rule can."""
    prefix: tuple[str, ...] = ()
    """Rules that would allow it and commands that begin as it does; none if that would allow anything."""
    resolved_paths: tuple[str, ...] = ()
    """The resolved paths that need approval. If they change, the user must be asked again."""
    unasked: bool = False
    """Whether it is allowed by the names of programs alone, so that it runs at `read` with programs of the system."""
    doubts: tuple[str, ...] = ()
    """The doubts about the sandbox that a yes accepts for this session."""
    rules: tuple[str, ...] = ()
    """The rules that allow it; none if the mode does."""
    final: bool = False
    """Of a part: whether allow rules and the mode cannot change it, because a deny or ask rule applies or may apply."""


ALLOWED = Decision("allow", "")
READS = Decision("allow", "", unasked=True)


def allowed_by(*rules: Rule) -> Decision:
    return Decision("allow", "", rules=tuple(rule.text for rule in rules))


def deny_part(reason: str) -> Decision:
    return Decision("deny", reason, final=True)
