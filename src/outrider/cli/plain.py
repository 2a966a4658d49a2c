"""Text that only shows: it moves no cursor, changes no colour, and is not taken for a line of the program's own."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """Text in one line."""
    return plain_lines(text).replace("\n", "⏎")


def plain_lines(text: str) -> str:
    """Text whose lines may stay lines."""
    return _CONTROL.sub("�", text.replace("\r\n", "\n"))
