"""Find the name that was probably meant."""

from __future__ import annotations

import re
from collections.abc import Iterable

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_CLOSE = 0.7
"""How similar two names must be, from 0 to 1."""


def nearest_name(name: str, names: Iterable[str]) -> str:
    """Return the name that was probably meant, or "" if none is near.

    >>> nearest_name("raed", ["Read", "Write"]), nearest_name("read_file", ["Read", "Write"])
    ('Read', 'Read')
    >>> nearest_name("package", ["Read", "Write"])
    ''
    """
    from difflib import get_close_matches  # needed only after a mistake

    known = {_letters(each): each for each in names}
    if found := known.get(_letters(name)):
        return found
    if found := next((known[word] for word in map(str.lower, _WORD.findall(name)) if word in known), ""):
        return found
    return next((known[each] for each in get_close_matches(_letters(name), known, 1, _CLOSE)), "")


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))
