"""Limits on how much of a document is read: a small file can unpack to any size."""

from __future__ import annotations

BYTES = 32 * 1024 * 1024
"""The limit on unpacked bytes."""
ELEMENTS = 1_000_000
"""The limit on XML elements; a page of text has a few hundred."""
CHARACTERS = 5_000_000
"""The limit on characters of text; more than any model reads."""


class ExhaustedError(Exception):
    """The document exceeds a limit. The text read so far is still valid."""


class Budget:
    """The remaining amounts for one document."""

    def __init__(self) -> None:
        self._bytes, self._elements, self._characters = BYTES, ELEMENTS, CHARACTERS

    def spend_bytes(self, count: int) -> None:
        """Count unpacked bytes. Raises ExhaustedError."""
        self._bytes -= count
        if self._bytes < 0:
            raise ExhaustedError

    def spend_element(self) -> None:
        """Count an element. Raises ExhaustedError."""
        self._elements -= 1
        if self._elements < 0:
            raise ExhaustedError

    def spend_characters(self, count: int) -> None:
        """Count characters of text. Raises ExhaustedError."""
        self._characters -= count
        if self._characters < 0:
            raise ExhaustedError
