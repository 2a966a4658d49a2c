"""What readers of documents share: blocks of text, tables, and limits, as a small file can unpack to any size."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import msgspec

COLUMNS = 16_384
"""The maximum width of a sheet."""
BYTES = 32 * 1024 * 1024
"""The limit on unpacked bytes."""
ELEMENTS = 1_000_000
"""The limit on XML elements; a page of text has a few hundred."""
CHARACTERS = 5_000_000
"""The limit on characters of text; more than any model reads."""


class Block(msgspec.Struct, frozen=True):
    """Text on lines of its own."""

    text: str
    tight: bool = False
    """Whether to omit the empty line between adjacent tight blocks: list items, rows of a sheet."""


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Format rows as a Markdown table with the first row as header; empty if it has no text.

    >>> print(markdown([["a", "b|c"], ["1"]]))
    | a | b\\|c |
    | --- | --- |
    | 1 |  |
    """
    width = min(max(map(len, rows), default=0), COLUMNS)
    if not width or not any(cell.strip() for row in rows for cell in row):
        return ""
    lines = [_line([*map(_cell, row[:width]), *[""] * (width - len(row))]) for row in rows]
    return "\n".join([lines[0], _line(["---"] * width), *lines[1:]])


def comma_separated(row: Sequence[str]) -> str:
    """Format a row as a line of CSV, without trailing empty cells.

    >>> comma_separated(["a", "b, c", "", "d", "", ""])
    'a,"b, c",,d'
    """
    end = len(row)
    while end and not row[end - 1]:
        end -= 1
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(row[:end])
    return line.getvalue()


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


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
