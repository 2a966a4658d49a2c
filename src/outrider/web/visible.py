"""Untrusted text, made safe to look at: no escape sequences, and no characters that change the order of others."""

from __future__ import annotations

import re

from outrider.text import clean

_SEQUENCES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)?"  # OSC, DCS and other strings
    r"|\x1b[ -/]{0,4}[0-~]"
)
_HIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """Return the text without escape sequences of terminals, and with a mark for other characters that hide or reorder.

    >>> visible("\\x1b[31mred\\x1b[0m a\\u202eb")
    'red a\\ufffdb'
    """
    text = clean(text)
    if "\x1b" in text:
        text = _SEQUENCES.sub("", text)
    return _HIDDEN.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n")).replace("\r", "\n")
