"""Wildcards as regular expressions: `*`, `?`, `[a-z]` and `\\x` within a name. What spans folders differs by caller."""

from __future__ import annotations

import re
from collections.abc import Mapping

_WITHIN_A_NAME = r"\*+|\?|\[[!^]?\]?[^\]/]*\]|\\.|."


class Wildcards:
    """Translates patterns. `spanning` has the tokens that span folders, as regular expressions, and what they become.

    >>> Wildcards({r"\\*\\*/": "(?:.*/)?"}).to_regex("**/*.[!c]?")
    '(?:.*/)?[^/]*\\\\.(?!/)[^c][^/]'
    """

    def __init__(self, spanning: Mapping[str, str]) -> None:
        self._meanings = tuple(spanning.values())
        groups = (f"({token})" for token in spanning)
        self._token = re.compile("|".join((*groups, _WITHIN_A_NAME)), re.DOTALL)

    def to_regex(self, pattern: str) -> str:
        """Return the regular expression. Compiling it fails for a range such as `[z-a]`."""
        return "".join(map(self._meaning, self._token.finditer(pattern)))

    def _meaning(self, token: re.Match[str]) -> str:
        return self._meanings[token.lastindex - 1] if token.lastindex else _within_a_name(token.group())


def _within_a_name(token: str) -> str:
    if token.startswith("*"):
        return "[^/]*"
    if token == "?":
        return "[^/]"
    if token.startswith("[") and len(token) > 2:
        inside = token[1:-1].replace("\\", "\\\\").replace("[", "\\[")
        return f"(?!/)[^{inside[1:]}]" if inside[0] in "!^" else f"(?!/)[{inside}]"
    return re.escape(token[1:] if token.startswith("\\") and len(token) > 1 else token)
