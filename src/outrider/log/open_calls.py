"""The state of the newest reply's calls."""

from __future__ import annotations

import msgspec

from outrider.log.entries import CallResult, Intent


class OpenCalls(msgspec.Struct, frozen=True):
    """Calls already started or answered. The next message resets it."""

    begun: dict[str, Intent] = {}
    """The intents that are on disk, by call id."""
    answers: dict[str, CallResult] = {}
    """The results by call id, while other calls of the same reply are still open."""
    recorded: frozenset[str] = frozenset()
    """The ids of the calls whose results are on disk."""
    final: CallResult | None = None
    """The result that ended the run, if no message followed."""
