"""Unified diffs of limited size, for people."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, takewhile
from operator import eq
from pathlib import Path
from typing import Any

import msgspec

from outrider.coding.toolbox.tool_errors import printable
from outrider.text import clean, counted

CHARACTERS = 20_000
"""The maximum length of a diff."""
LINE_CHARACTERS = 2_000
CONTEXT = 3
MAX_COMPARED = 4_000_000
"""Pairs of lines above which a comparison would take too long."""

_RANGES = re.compile(r"@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@")


class Diff(msgspec.Struct, frozen=True):
    """The difference between two texts."""

    text: str
    added: int
    """Number of lines."""
    removed: int


def diff_of(old: str, new: str, name: str) -> Diff:
    """Return the unified diff from one text to another. Line endings are not compared."""
    added = removed = used = left_out = 0
    kept: list[str] = []
    for line in changes(old, new):
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


def changes(old: str, new: str) -> Iterator[str]:
    """Yield the lines of all hunks, uncut.

    Equal lines at both ends are removed first: most changes are small, most files are not.
    """
    before, after = _lines(old), _lines(new)
    if before == after:
        return
    head, tail = _common_ends(before, after)
    start, spare = max(0, head - CONTEXT), max(0, tail - CONTEXT)
    before, after = before[start : len(before) - spare], after[start : len(after) - spare]
    if len(before) * len(after) > MAX_COMPARED:
        yield from _whole_hunk(before, after, start, head - start, tail - spare)
        return
    from difflib import unified_diff  # slow to import

    for line in list(unified_diff(before, after, n=CONTEXT, lineterm=""))[2:]:
        yield _shift_header(line, start) if line.startswith("@@") else line


def changed_blocks(old: str, new: str) -> list[tuple[int, int]]:
    """Return for each place that differs how many lines are removed and added there."""
    before, after = _lines(old), _lines(new)
    head, tail = _common_ends(before, after)
    before, after = before[head : len(before) - tail], after[head : len(after) - tail]
    if not before or not after or len(before) * len(after) > MAX_COMPARED:
        return [(len(before), len(after))] if before or after else []
    from difflib import SequenceMatcher  # slow to import

    blocks = SequenceMatcher(None, before, after).get_opcodes()
    return [(end - start, until - since) for kind, start, end, since, until in blocks if kind != "equal"]


def _whole_hunk(before: list[str], after: list[str], start: int, head: int, tail: int) -> Iterator[str]:
    """Yield one hunk that replaces everything except the context lines."""
    yield f"@@ -{start + 1},{len(before)} +{start + 1},{len(after)} @@"
    yield from (f" {line}" for line in before[:head])
    yield from (f"-{line}" for line in before[head : len(before) - tail])
    yield from (f"+{line}" for line in after[head : len(after) - tail])
    yield from (f" {line}" for line in before[len(before) - tail :])


def _shift_header(header: str, start: int) -> str:
    def shift(ranges: re.Match[str]) -> str:
        return f"@@ -{int(ranges[1]) + start}{ranges[2] or ''} +{int(ranges[3]) + start}{ranges[4] or ''} @@"

    return _RANGES.sub(shift, header)


def _lines(text: str) -> list[str]:
    """Return the lines without their line endings. The last line is marked if it has none."""
    *lines, last = text.split("\n")
    lines = [line.removesuffix("\r") for line in lines]
    return [*lines, f"{last}\n\\ No newline at end of file"] if last else lines


def _common_ends(before: list[str], after: list[str]) -> tuple[int, int]:
    """Return how many lines are equal at the beginning, and how many of the rest at the end."""
    head = sum(takewhile(bool, map(eq, before, after)))
    rest = min(len(before), len(after)) - head
    return head, sum(takewhile(bool, islice(map(eq, reversed(before), reversed(after)), rest)))


def change_details(path: Path, name: str, old: str, new: str) -> dict[str, Any]:
    """Return the details of a result: the path, the diff, and the number of added and removed lines."""
    diff = diff_of(old, new, clean(printable(name)))
    return {"path": clean(str(path)), "diff": diff.text, "added": diff.added, "removed": diff.removed}
