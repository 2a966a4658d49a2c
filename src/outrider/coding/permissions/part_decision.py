"""The decision about one part of a call. A call is allowed if all of its parts are."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Verdict: TypeAlias = Literal["allow", "ask", "deny"]


class PartDecision(msgspec.Struct, frozen=True):
    """The decision about one part of a call: a path, a command, a redirection."""

    verdict: Verdict
    reason: str
    always: tuple[str, ...] = ()
    """Rules that would allow this part."""
    final: bool = False
    """Whether allow rules and the mode cannot change it, because a deny or ask rule applies or may apply."""
    resolved_paths: tuple[str, ...] = ()
    """The resolved paths in question."""
    doubts: tuple[str, ...] = ()
    """What the user accepts for this session with a yes."""


ALLOWED = PartDecision("allow", "")


def deny_part(reason: str) -> PartDecision:
    """Return a denial."""
    return PartDecision("deny", reason, final=True)
