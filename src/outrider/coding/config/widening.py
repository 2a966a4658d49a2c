"""What a project's settings would allow beyond the user's own: more to run, more to reach, more to spend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from outrider.coding.permissions.secrets import SECRETS
from outrider.providers.names import qualified
from outrider.providers.tiers import TIERS

_MODES = ("plan", "ask", "edits", "all")
_SANDBOXES = ("require", "auto", "off")

Test: TypeAlias = Callable[[Any, Any], bool]


class Widening(msgspec.Struct, frozen=True):
    """One value that the user has to agree to."""

    key: str
    value: Any
    """What the project's file says."""
    instead: Any
    """What holds without it."""
    why: str
    """What it would bring, in a few words."""


def widenings(users: Mapping[str, Any], projects: Mapping[str, Any]) -> tuple[Widening, ...]:
    """Which of a project's values allow more than the user's, which are complete."""
    return tuple(
        Widening(key, value, users[key], _WIDER[key][1])
        for key, value in projects.items()
        if _WIDER[key][0](users[key], value)
    )


def _further_in(order: tuple[str, ...]) -> Test:
    return lambda users, projects: order.index(projects) > order.index(users)


def _adds(users: tuple[str, ...], projects: tuple[str, ...]) -> bool:
    return not set(projects) <= set(users)


def _switches_on(users: bool, projects: bool) -> bool:
    return projects and not users


def _raises(users: float | None, projects: float | None) -> bool:
    return users is not None and (projects is None or projects > users)


def _adds_tools(users: tuple[str, ...] | None, projects: tuple[str, ...]) -> bool:
    return users is not None and _adds(users, projects)


def _uncovers(users: tuple[str, ...] | None, projects: tuple[str, ...]) -> bool:
    """Whether it is more than the user's patterns, all and in their order, and behind them some that take none back."""
    covered = SECRETS if users is None else users
    added = projects[len(covered) :]
    return projects[: len(covered)] != covered or any(each.startswith("!") for each in added)


def _goes_elsewhere(users: str | None, projects: str) -> bool:
    """Whether the conversation would be sent to somebody whom the user did not choose."""
    if projects == users:
        return False
    provider = qualified(projects).partition("/")[0].lower()
    if projects.lower().startswith(("http:", "https:")) or provider == "litellm":
        return True
    if users is None or users in TIERS or provider == "demo":
        return False
    return provider != qualified(users).partition("/")[0].lower()


def _never(users: Any, projects: Any) -> bool:
    return False


_LIMIT = "a run may go on for longer, or cost more, than you have set"
_WIDER: dict[str, tuple[Test, str]] = {
    "model": (_goes_elsewhere, "the conversation, files included, goes to whoever answers there"),
    "tools": (_adds_tools, "tools that you have left out can be used"),
    "tool_files": (_adds, "these files are run as programs, with all that you may do"),
    "permissions.mode": (_further_in(_MODES), "more is done without asking you"),
    "permissions.allow": (_adds, "these calls run without asking you"),
    "permissions.ask": (_never, ""),
    "permissions.deny": (_never, ""),
    "permissions.folders": (_adds, "these folders count as part of the project"),
    "permissions.secrets": (_uncovers, "files that are kept from the model may be read"),
    "sandbox.use": (_further_in(_SANDBOXES), "commands may run without a sandbox"),
    "sandbox.network": (_switches_on, "commands in the sandbox reach the network"),
    "web.private_addresses": (_switches_on, "this machine and the local network can be reached"),
    "limits.turns": (_raises, _LIMIT),
    "limits.tokens": (_raises, _LIMIT),
    "limits.cost": (_raises, _LIMIT),
    "limits.seconds": (_raises, _LIMIT),
    "limits.repeats": (_raises, _LIMIT),
    "limits.subagents": (_raises, _LIMIT),
    "limits.tool_seconds": (_raises, _LIMIT),
    "limits.result_characters": (_raises, "results may be longer than you have set"),
    "limits.attachment_bytes": (_raises, "files may be larger than you have set"),
    "subagents.result_characters": (_raises, "answers of sub-agents may be longer than you have set"),
    "chat.show_thinking": (_never, ""),
    "acp.full_updates": (_never, ""),
    "acp.update_interval": (_never, ""),
}
"""For each key, when a project's value is wider than the user's, and what that means."""
