"""Hints for the model when a text is not in a file."""

from __future__ import annotations

import re
from collections.abc import Sequence

from outrider.coding.toolbox.files.text_files import readable

LINES_COMPARED = 5_000
LINE_CHARACTERS = 300
_NUMBERED = re.compile(r"^ *\d+(?:\t|→)", re.MULTILINE)


def near_miss(text: str, old: str) -> str:
    """Return a sentence about the text that is most like `old`, or ""."""
    bare = _NUMBERED.sub("", old)
    if bare != old and bare.strip() and bare in text.replace("\r\n", "\n"):
        return " It has the line numbers that Read shows: leave them out."
    lines = text.split("\n")
    wanted = [line.strip() for line in old.strip().split("\n")]
    if place := _find_ignoring_space(lines, wanted):
        there = "\n".join(line.rstrip("\r") for line in lines[place - 1 : place - 1 + len(wanted)])
        return f" The text at line {place} differs only in white space:\n{readable(there)[0]}"
    return _closest(lines, max(wanted, key=len))


def _find_ignoring_space(lines: Sequence[str], wanted: Sequence[str]) -> int:
    """Return the line number where the wanted lines begin when white space is ignored, or 0."""
    squeezed = ["".join(line.split()) for line in wanted]
    there = ["".join(line.split()) for line in lines]
    if not any(squeezed):
        return 0
    for number in range(len(there) - len(squeezed) + 1):
        if squeezed[0] in there[number] and there[number : number + len(squeezed)] == squeezed:
            return number + 1
    return 0


def _closest(lines: Sequence[str], wanted: str) -> str:
    from difflib import get_close_matches

    candidates = {line.strip()[:LINE_CHARACTERS]: number for number, line in enumerate(lines[:LINES_COMPARED], 1)}
    for close in get_close_matches(wanted[:LINE_CHARACTERS], candidates, 1):
        return f" The closest line is {candidates[close]}: {readable(close)[0]}"
    return ""
