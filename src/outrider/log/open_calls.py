"""How things stand with the newest reply: what of its calls is known already."""

from __future__ import annotations

import msgspec

from outrider.log.entries import CallResult, Intent


class OpenCalls(msgspec.Struct, frozen=True):
    """What need not be found out, or done, again. Nothing of it outlives the next message."""

    begun: dict[str, Intent] = {}
    """The calls whose intent is on disk."""
    answers: dict[str, CallResult] = {}
    """The calls that have their answer, while others of the same reply wait for theirs."""
    recorded: frozenset[str] = frozenset()
    """Those of the answers that are on disk."""
    final: CallResult | None = None
    """The answer that ended the run, if nothing was said since."""
