"""The access levels of shell commands in each mode: which run, which are asked about, which are refused."""

from __future__ import annotations

from collections.abc import Mapping

from outrider.coding.access import ACCESS_LEVELS, ACCESS_WORDS, Access
from outrider.coding.permissions.question import Mode

LEVELS_THAT_RUN: Mapping[Mode, tuple[Access, ...]] = {
    "plan": ("read",),
    "ask": ("read",),
    "edits": ("read", "write"),
    "all": ACCESS_LEVELS,
}
"""The levels at which commands run without asking where a sandbox enforces them."""


def access_table(mode: Mode, *, sandboxed: bool) -> dict[Access, tuple[str, str]]:
    """Return what happens to a command at each level, and what it may touch, both in words."""
    if sandboxed:
        return {level: (_verdict(mode, level), ACCESS_WORDS[level]) for level in ACCESS_LEVELS}
    unconfined = _verdict(mode, "full")
    words = "a few plain commands that only read run" if unconfined != "runs" else ""
    others = dict.fromkeys(ACCESS_LEVELS, (unconfined, ACCESS_WORDS["full"]))
    return {**others, "read": (unconfined, "; ".join(filter(None, (ACCESS_WORDS["full"], words))))}


def _verdict(mode: Mode, level: Access) -> str:
    if level in LEVELS_THAT_RUN[mode]:
        return "runs"
    return "refused" if mode == "plan" else "asks"
