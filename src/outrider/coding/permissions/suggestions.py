"""The narrowest useful rule for a command that a person wants to allow for good."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from outrider.coding.permissions.naming import names
from outrider.coding.permissions.traps import is_trapped

LONGEST = 300

FAMILIES: Mapping[str, frozenset[str]] = {
    "git": names("status diff log show blame add commit ls-files rev-parse"),
    "npm": names("test ci ls"),
    "pnpm": names("test"),
    "yarn": names("test"),
    "bun": names("test"),
    "cargo": names("build test check clippy fmt doc tree"),
    "go": names("build test vet fmt"),
    "ruff": names("check format"),
}
"""Tools of which some sub-commands do one kind of thing."""

RUNNERS = names("npm pnpm yarn bun")


def lasting_rule(words: Sequence[str]) -> str:
    """The rule to offer for a command: how it begins if that is a well-known task, otherwise exactly this command."""
    count = _task_length(words)
    if count and not is_trapped(words):
        return f"Bash({shlex.join(words[:count])}:*)"
    return exact_rule(shlex.join(words))


def exact_rule(text: str) -> str:
    """The rule for exactly this command line; empty if it cannot be written as one."""
    text = text.strip()
    if not text or "\n" in text or len(text) > LONGEST or text.endswith((":*", " *")) or text in ("*", "**"):
        return ""
    return f"Bash({text})"


def _task_length(words: Sequence[str]) -> int:
    """How many words name a well-known task; 0 if it is none."""
    if words[0] == "pytest":
        return 1
    if len(words) < 2 or words[1].startswith("-"):
        return 0
    if words[0] in RUNNERS and words[1] == "run":
        return 3 if len(words) > 2 and not words[2].startswith("-") else 0
    return 2 if words[0] == "make" or words[1] in FAMILIES.get(words[0], ()) else 0
