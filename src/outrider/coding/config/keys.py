"""The keys of the settings: what each takes, and by which variable and flag it can be set as well."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import get_args

import msgspec

from outrider.coding.config.kinds import (
    Choice,
    Kind,
    Name,
    Number,
    Paths,
    Patterns,
    Rules,
    Seconds,
    Texts,
    ToolNames,
    YesNo,
)
from outrider.coding.config.settings import SandboxUse, Settings, flattened
from outrider.coding.config.showing import quoted
from outrider.coding.permissions.question import MODES
from outrider.coding.toolbox import ALL_NAMES

_SECRET = re.compile(r"key|token|secret|password|credential", re.IGNORECASE)


class Key(msgspec.Struct, frozen=True):
    """One setting."""

    kind: Kind
    variable: str = ""
    """The environment variable that sets it, if there is one."""
    flag: str = ""
    """The flag of the terminal program that sets it, if there is one."""


KEYS: dict[str, Key] = {
    "model": Key(Name(), "OUTRIDER_MODEL", "--model"),
    "tools": Key(ToolNames("names of tools", known=ALL_NAMES), "OUTRIDER_TOOLS", "--tools"),
    "tool_files": Key(Paths("paths of Python files", together=True), flag="--tools"),
    "permissions.mode": Key(Choice(MODES), "OUTRIDER_PERMISSIONS", "--permissions"),
    "permissions.allow": Key(Rules("rules", together=True)),
    "permissions.ask": Key(Rules("rules", together=True)),
    "permissions.deny": Key(Rules("rules", together=True)),
    "permissions.folders": Key(Paths("paths of folders", together=True)),
    "permissions.secrets": Key(Patterns("patterns of files")),
    "sandbox.use": Key(Choice(get_args(SandboxUse)), "OUTRIDER_SANDBOX"),
    "sandbox.network": Key(YesNo(), "OUTRIDER_SANDBOX_NETWORK"),
    "web.private_addresses": Key(YesNo(), "OUTRIDER_PRIVATE_ADDRESSES"),
    "limits.turns": Key(Number(whole=True), "OUTRIDER_MAX_TURNS", "--max-turns"),
    "limits.tokens": Key(Number(whole=True), "OUTRIDER_MAX_TOKENS"),
    "limits.cost": Key(Number(), "OUTRIDER_MAX_COST", "--max-cost"),
    "limits.seconds": Key(Number(), "OUTRIDER_MAX_SECONDS"),
    "limits.repeats": Key(Number(whole=True), "OUTRIDER_MAX_REPEATS"),
    "limits.subagents": Key(Number(whole=True), "OUTRIDER_MAX_SUBAGENTS"),
    "limits.tool_seconds": Key(Number(), "OUTRIDER_TOOL_SECONDS"),
    "limits.result_characters": Key(Number(whole=True, unlimited=False)),
    "limits.attachment_bytes": Key(Number(whole=True, unlimited=False)),
    "subagents.result_characters": Key(Number(whole=True, unlimited=False)),
    "chat.show_thinking": Key(YesNo()),
    "acp.full_updates": Key(Texts("names of editors"), flag="--full-updates"),
    "acp.update_interval": Key(Seconds(most=1), flag="--update-interval"),
}
"""Every setting, in the order in which they are shown."""

DEFAULTS = flattened(Settings())
SECTIONS = tuple(dict.fromkeys(key.partition(".")[0] for key in KEYS if "." in key))
VARIABLES = {key.variable: name for name, key in KEYS.items() if key.variable}


def advice(unknown: str, *, is_text: bool = False) -> str:
    """What to do about a key that there is not, as a sentence's end; a text may be a secret by its name."""
    if is_text and _SECRET.search(unknown.rpartition(".")[2]):
        return "keys and passwords are never kept in settings: export them, as in ANTHROPIC_API_KEY=…"
    if meant := _meant(unknown):
        return f"did you mean {quoted(meant)}?"
    section = unknown.partition(".")[0]
    known = [key for key in KEYS if key.startswith(f"{section}.")] or KEYS
    return f"known: {', '.join(known)}"


def _meant(unknown: str) -> str:
    """The key that was probably meant: one of the same name elsewhere, or one that is spelt alike."""
    last = unknown.rpartition(".")[2].lower()
    elsewhere = [key for key in KEYS if key.rpartition(".")[2] == last]
    if len(elsewhere) == 1:
        return elsewhere[0]
    if close := get_close_matches(unknown.lower(), [*KEYS, *SECTIONS], 1, 0.7):
        return close[0]
    names = {key.rpartition(".")[2]: key for key in KEYS}
    shortened = last.removeprefix("max_").removesuffix("s")
    alike = get_close_matches(last, names, 1, 0.75) or get_close_matches(shortened, names, 1, 0.75)
    return names[alike[0]] if alike else ""
