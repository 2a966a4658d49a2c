"""Text that only shows: it moves no cursor, changes no colour, and is not taken for a line of the program's own."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

_UNSEEN = re.compile(
    r"[\u00ad\u034f\u115f\u1160\u180e\u200b-\u200f\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
)


def plain(text: str) -> str:
    """Text in one line."""
    return plain_lines(text).replace("\n", "⏎")


def exact(text: str) -> str:
    """Text whose lines may stay lines, and in which nothing hides: what takes no room on the screen is shown too."""
    return _UNSEEN.sub("�", plain_lines(text))


def plain_lines(text: str) -> str:
    """Text whose lines may stay lines."""
    return _CONTROL.sub("�", text.replace("\r\n", "\n"))
