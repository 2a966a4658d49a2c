"""Tables as text: in Markdown for those among words, as CSV for sheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

COLUMNS = 16_384
"""The widest sheet that there is."""


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A table of which the first row is the head; empty if it has no words.

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
    """A row as a line of CSV, without the empty cells at its end.

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
