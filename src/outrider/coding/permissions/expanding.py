"""What the shell makes of a pattern of names, as far as the disk can tell at this moment."""

from __future__ import annotations

import os
import re

from outrider.coding.permissions.patterns import translated

MOST = 5_000
"""Names that are compared with a pattern."""

STARS = 3
"""Wildcards of any length in one name: each more makes the comparison much slower."""

_GLOB = re.compile(r"[*?\[]")


class TooMuchError(ValueError):
    """A pattern for which too many folders would have to be looked through, or one that cannot be used."""


def expanded(pattern: str, folder: str) -> list[str]:
    """The paths that a pattern without braces may stand for. Raises TooMuchError.

    What follows the last wildcard need not be there yet: somebody may create it before the command runs.
    """
    places = ["/"] if pattern.startswith("/") else [folder]
    seen = 0
    for name in pattern.split("/"):
        if not _GLOB.search(name):
            places = [os.path.join(place, name) for place in places]
            continue
        matcher = _matcher(name)
        found: list[str] = []
        for place in places:
            names = _names_in(place)
            seen += len(names)
            found.extend(os.path.join(place, each) for each in names if matcher.fullmatch(each))
        places = found
        if seen > MOST:
            raise TooMuchError("there are too many names")
    return places


def _names_in(place: str) -> list[str]:
    try:
        return os.listdir(place)
    except OSError:
        return []


def _matcher(name: str) -> re.Pattern[str]:
    name = re.sub(r"\*+", "*", name)
    if name.count("*") > STARS:
        raise TooMuchError("the pattern has too many wildcards")
    hidden = "" if name.startswith(".") else r"(?!\.)"
    try:
        return re.compile(hidden + translated(name), re.DOTALL)
    except re.error as error:
        raise TooMuchError("the pattern cannot be used") from error
