"""Names that contain the typed characters in order, the likeliest first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from heapq import nsmallest

MOST_SCORED = 2_000
"""Matches that are compared in detail: of more, the shortest, with the typed text in one piece if there are enough."""
_INSIDE = re.compile(r"(?<=[A-Za-z0-9])[a-z0-9]")
"""A character that does not begin a word: `chatLine`, `chat_line` and `chat/line` have two words each."""


class FuzzyNames:
    """Many names to search, such as the files of a folder."""

    def __init__(self, names: Sequence[str]) -> None:
        ordered = sorted(names, key=lambda name: (name.startswith(".") or "/." in name, len(name), name))
        self._names = [(name, name.lower()) for name in ordered]
        """Each name as it is and in lower case, hidden ones last."""

    def matching(self, typed: str, most: int) -> list[str]:
        """Return the best matches; hidden files come last, unless a dot was typed first."""
        wanted = typed.lower()
        matches = re.compile("".join(f"[^{re.escape(each)}]*{re.escape(each)}" for each in wanted), re.DOTALL).match
        found = [pair for pair in self._names if matches(pair[1])]
        if len(found) > MOST_SCORED:
            whole = [pair for pair in found if wanted in pair[1]]
            found = (whole if len(whole) >= most else found)[:MOST_SCORED]

        def rank(name: str) -> tuple[bool, int, int, str]:
            is_hidden = not typed.startswith(".") and (name.startswith(".") or "/." in name)
            return is_hidden, -score(name, wanted), len(name), name

        return nsmallest(most, (name for name, _ in found), key=rank)


def matching_names(names: Sequence[str], typed: str) -> list[str]:
    """Return the names that match, the best first; those that are equally good in their order."""
    wanted = typed.lower()
    scores = {name: score(name, wanted) for name in names}
    return sorted((name for name in names if scores[name] >= 0), key=lambda name: -scores[name])


def score(name: str, typed: str) -> int:
    """Return how well a name has these characters in order, in lower case; -1 if it has not.

    >>> score("cli/picker.py", "pick") > score("cli/topics.py", "pics") > score("cli/a.py", "x") == -1
    True
    """
    lower = name.lower()
    if len(lower) != len(name):  # such as İ
        name = lower
    heads = _INSIDE.sub("\0", name).lower()
    base = lower.rstrip("/").rfind("/") + 1
    found = (_value(places, heads, base) for places in (_by_words(lower, heads, typed), _from_end(lower, typed)))
    return max(found)


def _value(places: list[int] | None, heads: str, base: int) -> int:
    """Return what it is worth that the characters are at these places."""
    if places is None:
        return -1
    value, before = 0, -2
    for place in places:
        value += 2 if place >= base else 1  # in the file's name
        value += 6 if place == before + 1 else 4 if heads[place] != "\0" else 0
        before = place
    return value + (4 if places and places[0] == base else 0)


def _by_words(lower: str, heads: str, typed: str) -> list[int] | None:
    """Find each character directly after the one before, else at the beginning of a word, else anywhere."""
    places: list[int] = []
    at = 0
    for each in typed:
        if not (places and lower.startswith(each, at)):
            head = heads.find(each, at)
            at = head if head >= 0 else lower.find(each, at)
        if at < 0:
            return None
        places.append(at)
        at += 1
    return places


def _from_end(lower: str, typed: str) -> list[int] | None:
    """Find the typed text in one piece, as late as possible; else its characters, each as late as possible."""
    whole = lower.rfind(typed)
    if whole >= 0:
        return list(range(whole, whole + len(typed)))
    places: list[int] = []
    at = len(lower)
    for each in reversed(typed):
        at = lower.rfind(each, 0, at)
        if at < 0:
            return None
        places.insert(0, at)
    return places
