"""The arguments of a tool call while they are streamed."""

from __future__ import annotations

from typing import Any

from outrider.providers.stream import partial_arguments

_FIRST_STEP = 64
"""Characters between two attempts to parse, at first; the step grows with the text."""


class StreamedArguments:
    """Collects chunks of JSON and parses them from time to time. The total cost of parsing stays linear."""

    def __init__(self) -> None:
        self._chunks: list[str] = []
        self._length = 0
        self._next_parse = 1

    def add(self, chunk: str) -> dict[str, Any] | None:
        """Add a chunk. Return the arguments that are complete so far, or None if they were not parsed."""
        self._chunks.append(chunk)
        self._length += len(chunk)
        if self._length < self._next_parse:
            return None
        self._next_parse = self._length + max(_FIRST_STEP, self._length // 2)
        self._chunks = ["".join(self._chunks)]
        # Incomplete values are left out: with half a path, an editor would jump from file to file.
        return partial_arguments(self._chunks[0], unfinished=False) or None
