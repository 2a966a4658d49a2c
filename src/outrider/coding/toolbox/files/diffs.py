"""What changed in a text, for people: a unified diff within bounds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, takewhile
from operator import eq

import msgspec

from outrider.text import clean, counted

CHARACTERS = 20_000
"""What is kept of a diff."""
LINE_CHARACTERS = 2_000
CONTEXT = 3
COMPARED = 4_000_000
"""Pairs of lines beyond which a search for what stayed the same would take too long."""

_RANGES = re.compile(r"@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@")


class Diff(msgspec.Struct, frozen=True):
    """The difference of two texts."""

    text: str
    added: int
    """Lines."""
    removed: int


def diff_of(old: str, new: str, name: str) -> Diff:
    """The unified diff from one text to another. How their lines end is not shown."""
    added = removed = used = left_out = 0
    kept: list[str] = []
    for line in _changes(_lines(old), _lines(new)):
        added += line.startswith("+")
        removed += line.startswith("-")
        used += min(len(line), LINE_CHARACTERS) + 1
        if used <= CHARACTERS:
            kept.append(line if len(line) <= LINE_CHARACTERS else f"{line[:LINE_CHARACTERS]}…")
        else:
            left_out += 1
    if left_out:
        kept.append(f"… {counted(left_out, 'more line')}")
    text = "".join(f"{line}\n" for line in (f"--- {name}", f"+++ {name}", *kept)) if kept else ""
    return Diff(clean(text), added, removed)


def _changes(before: list[str], after: list[str]) -> Iterator[str]:
    """The hunks. What is the same at both ends is put aside first: most changes are small, and files are not."""
    if before == after:
        return
    head, tail = _common_ends(before, after)
    start, spare = max(0, head - CONTEXT), max(0, tail - CONTEXT)
    before, after = before[start : len(before) - spare], after[start : len(after) - spare]
    if len(before) * len(after) > COMPARED:
        yield from _replaced(before, after, start, head - start, tail - spare)
        return
    from difflib import unified_diff  # takes long to import

    for line in list(unified_diff(before, after, n=CONTEXT, lineterm=""))[2:]:
        yield _moved(line, start) if line.startswith("@@") else line


def _replaced(before: list[str], after: list[str], start: int, head: int, tail: int) -> Iterator[str]:
    """One hunk in which everything is new but the lines around it."""
    yield f"@@ -{start + 1},{len(before)} +{start + 1},{len(after)} @@"
    yield from (f" {line}" for line in before[:head])
    yield from (f"-{line}" for line in before[head : len(before) - tail])
    yield from (f"+{line}" for line in after[head : len(after) - tail])
    yield from (f" {line}" for line in before[len(before) - tail :])


def _moved(header: str, start: int) -> str:
    def shift(ranges: re.Match[str]) -> str:
        return f"@@ -{int(ranges[1]) + start}{ranges[2] or ''} +{int(ranges[3]) + start}{ranges[4] or ''} @@"

    return _RANGES.sub(shift, header)


def _lines(text: str) -> list[str]:
    """The lines, without what ends them; that nothing ends the last is a mark of it."""
    *lines, last = text.split("\n")
    lines = [line.removesuffix("\r") for line in lines]
    return [*lines, f"{last}\n\\ No newline at end of file"] if last else lines


def _common_ends(before: list[str], after: list[str]) -> tuple[int, int]:
    """How many lines at the beginning, and how many of the others at the end, are the same."""
    head = sum(takewhile(bool, map(eq, before, after)))
    rest = min(len(before), len(after)) - head
    return head, sum(takewhile(bool, islice(map(eq, reversed(before), reversed(after)), rest)))
