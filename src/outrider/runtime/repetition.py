"""Whether a run still gets anywhere: calls that were made before, and came to the same, are no progress."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.conversation.messages import ToolResultBlock, ToolUseBlock

WARNED_AT = 3
"""After how many turns without anything new the model is told."""


class Repetition:
    """Remembers what the calls of a run came to, by hash."""

    def __init__(self) -> None:
        self.streak = 0
        """Turns in a row in which each call was made before, with the same result."""
        self._seen: set[int] = set()

    def take(self, calls: Sequence[ToolUseBlock], results: Sequence[ToolResultBlock]) -> None:
        """One turn: its calls, and what they came to. A call that waits for something has another result one day."""
        outcomes = {
            hash((call.name, call.invalid_input or repr(call.input), result.content))
            for call, result in zip(calls, results, strict=False)
        }
        self.streak = self.streak + 1 if outcomes and outcomes <= self._seen else 0
        self._seen |= outcomes
