"""Detection of runs that repeat themselves: the same calls with the same results."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.conversation.messages import ToolResultBlock, ToolUseBlock

WARNED_AT = 3
"""Turns without anything new after which the model is warned."""


class Repetition:
    """Remembers the calls of a run and their results, by hash."""

    def __init__(self) -> None:
        self.streak = 0
        """Turns in a row in which every call had been made before, with the same result."""
        self._seen: set[int] = set()

    def take(self, calls: Sequence[ToolUseBlock], results: Sequence[ToolResultBlock]) -> None:
        """Count one turn. Polling is no repetition once its result changes."""
        outcomes = {
            hash((call.name, call.invalid_input or repr(call.input), result.content))
            for call, result in zip(calls, results, strict=False)
        }
        self.streak = self.streak + 1 if outcomes and outcomes <= self._seen else 0
        self._seen |= outcomes
