"""Suggest the narrowest useful rule for a command that the user always allows."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from outrider.coding.permissions.shell.unsafe_options import has_unsafe_options
from outrider.coding.permissions.word_set import word_set

MAX_CHARACTERS = 300

SAFE_SUBCOMMANDS: Mapping[str, frozenset[str]] = {
    "git": word_set("status diff log show blame add commit ls-files rev-parse"),
    "npm": word_set("test ci ls"),
    "pnpm": word_set("test"),
    "yarn": word_set("test"),
    "bun": word_set("test"),
    "cargo": word_set("build test check clippy fmt doc tree"),
    "go": word_set("build test vet fmt"),
    "ruff": word_set("check format"),
}
"""Programs with sub-commands that do one kind of thing."""

RUNNERS = word_set("npm pnpm yarn bun")


def suggest_rule(words: Sequence[str]) -> str:
    """Return a prefix rule if the command begins with a well-known task, or else a rule for exactly this command."""
    count = _task_length(words)
    if count and not has_unsafe_options(words):
        return f"Bash({shlex.join(words[:count])}:*)"
    return exact_rule(shlex.join(words))


def exact_rule(text: str) -> str:
    """Return the rule for exactly this command line, or "" if there is none."""
    text = text.strip()
    if not text or "\n" in text or len(text) > MAX_CHARACTERS or text.endswith((":*", " *")) or text in ("*", "**"):
        return ""
    return f"Bash({text})"


def _task_length(words: Sequence[str]) -> int:
    """Return how many words name a well-known task; 0 if there is none."""
    if words[0] == "pytest":
        return 1
    if len(words) < 2 or words[1].startswith("-"):
        return 0
    if words[0] in RUNNERS and words[1] == "run":
        return 3 if len(words) > 2 and not words[2].startswith("-") else 0
    return 2 if words[0] == "make" or words[1] in SAFE_SUBCOMMANDS.get(words[0], ()) else 0
