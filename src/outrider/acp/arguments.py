"""The arguments of a call while they arrive: what can be read of them so far."""

from __future__ import annotations

from typing import Any

from outrider.providers.stream import partial_arguments

_EVERY = 64
"""Characters after which it is looked at again, to begin with; the distance grows with what has arrived."""


class Arguments:
    """Collects JSON text, and reads it now and then: so seldom that all readings together stay linear."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._size = 0
        self._due = 1

    def take(self, more: str) -> dict[str, Any] | None:
        """What is known of them now; None if it is too soon to look, or nothing can be read yet."""
        self._text.append(more)
        self._size += len(more)
        if self._size < self._due:
            return None
        self._due = self._size + max(_EVERY, self._size // 2)
        self._text = ["".join(self._text)]
        # Half a path is not shown: an editor would jump from file to file.
        return partial_arguments(self._text[0], unfinished=False) or None
