"""What is found about one part of a call. A call may do what all its parts may do."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Verdict: TypeAlias = Literal["allow", "ask", "deny"]


class Finding(msgspec.Struct, frozen=True):
    """What is found about a part of a call."""

    verdict: Verdict
    reason: str
    always: tuple[str, ...] = ()
    """Rules that would allow this part."""
    firm: bool = False
    """Whether it is asked about whatever is allowed, because a rule asks or may deny."""
    places: tuple[str, ...] = ()
    """Where the paths in question lead at this moment."""


ALLOWED = Finding("allow", "")


def denied(reason: str) -> Finding:
    """A part that may not be done."""
    return Finding("deny", reason, firm=True)
