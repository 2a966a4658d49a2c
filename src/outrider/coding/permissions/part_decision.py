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
    unasked: bool = False
    """Whether it is allowed by the names of programs alone, so that it runs at `read` with programs of the system."""
    doubts: tuple[str, ...] = ()
    """What the user accepts for this session with a yes."""


ALLOWED = PartDecision("allow", "")
READS = PartDecision("allow", "", unasked=True)


def deny_part(reason: str) -> PartDecision:
    """Return a denial."""
    return PartDecision("deny", reason, final=True)
