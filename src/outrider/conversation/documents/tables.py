"""Format tables as text: Markdown in documents, CSV for sheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

COLUMNS = 16_384
"""The maximum width of a sheet."""


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
