"""Lists of names, written as one text."""

from __future__ import annotations


def names(text: str) -> frozenset[str]:
    """The names in a text, which blanks separate."""
    return frozenset(text.split())
