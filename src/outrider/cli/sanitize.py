"""Make untrusted text safe for the terminal: it cannot move the cursor, change colours or imitate our own lines."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

_INVISIBLE = re.compile(
    r"[\u00ad\u034f\u115f\u1160\u180e\u200b-\u200f\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
)


def safe_line(text: str) -> str:
    """Return the text in one line, without control characters."""
    return safe_lines(text).replace("\n", "⏎")


def reveal_hidden(text: str) -> str:
    """Return the text without control characters, and with invisible characters replaced by a visible mark."""
    return _INVISIBLE.sub("�", safe_lines(text))


def safe_lines(text: str) -> str:
    """Return the text without control characters; line breaks stay."""
    return _CONTROL.sub("�", text.replace("\r\n", "\n"))
