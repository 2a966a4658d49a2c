"""Text of servers, made harmless: no escape sequences, no control or invisible characters, limited length."""

from __future__ import annotations

import re

from outrider.text import clean

_ESCAPES = re.compile(
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # colours, cursor movements
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links, the clipboard
    r"|[PX^_][^\x1b]*(?:\x1b\\)?"  # strings for devices
    r"|[ -/]*[0-~])?"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Characters that hide text from people: zero-width, direction marks, and tags, which spell words invisibly.
_INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e0fff]")


def plain_text(text: str, limit: int) -> str:
    """Return the text without escape sequences and characters that a terminal does not show, cut to a length.

    >>> plain_text("\\x1b[31mred\\x1b[0m\\u202e, \\x07tab\\tkept", 100)
    'red, tab\\tkept'
    """
    text = clean(text[: limit * 4])
    if not text.isprintable():
        text = _INVISIBLE.sub("", _CONTROL.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n"))))
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def one_line(text: str, limit: int) -> str:
    """Return the text on one line, without characters that a terminal does not show."""
    return " ".join(plain_text(text, limit).split())
