"""How much of a document is looked at: a small file can unpack to any size."""

from __future__ import annotations

BYTES = 32 * 1024 * 1024
"""Unpacked bytes."""
ELEMENTS = 1_000_000
"""Elements of XML; a page of text has some hundreds."""
CHARACTERS = 5_000_000
"""Characters of text; more than any model reads."""


class ExhaustedError(Exception):
    """The document is larger than what is looked at. What was read of it stands."""


class Budget:
    """What is left to be spent on one document."""

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
