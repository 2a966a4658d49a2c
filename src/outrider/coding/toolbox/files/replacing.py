"""Replace one text by another inside a third, whatever its line endings; hints if it is not there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest

import msgspec

from outrider.coding.toolbox.files.regular_files import readable

PLACES = 20
"""Maximum number of occurrences whose line is reported."""


class Replacement(msgspec.Struct, frozen=True):
    """A replacement in a text whose lines may end with CR LF. A line feed in `old` and `new` then matches both.

    >>> Replacement.within("one\\r\\ntwo\\r\\n", "one\\ntwo", "1\\n2").apply()
    '1\\r\\n2\\r\\n'

    An empty `old` stands for the end of the text, where `new` is added in lines of its own.

    >>> Replacement.within("one", "", "two").apply()
    'one\\ntwo\\n'
    """

    text: str
    """The text to change, with plain line feeds."""
    old: str
    new: str
    line_ends: Sequence[str] = ()
    """The real ending of each line; empty if all are line feeds."""

    @classmethod
    def within(cls, text: str, old: str, new: str) -> Replacement:
        if not old:
            before, after = "" if not text or text.endswith("\n") else "\n", "" if new.endswith("\n") else "\n"
            new = f"{before}{new}{after}"
        if "\r\n" not in text:
            return cls(text, old, new)
        plain, old, new = (each.replace("\r\n", "\n") for each in (text, old, new))
        line_ends = ["\r\n" if line.endswith("\r") else "\n" for line in text.split("\n")[:-1]]
        return cls(plain, old, new, line_ends)

    def places(self) -> list[int]:
        """Return the positions of the first occurrences. Two occurrences may overlap."""
        found = list(islice(self._occurrences(), PLACES))
        if len(found) == 1 and (overlapping := self.text.find(self.old, found[0] + 1)) >= 0:
            found.append(overlapping)
        return found

    def _occurrences(self) -> Iterator[int]:
        if not self.old:
            yield len(self.text)
            return
        place = self.text.find(self.old)
        while place >= 0:
            yield place
            place = self.text.find(self.old, place + len(self.old))

    def count(self) -> int:
        """Return how many occurrences would be replaced."""
        return self.text.count(self.old) if self.old else 1

    def line_of(self, place: int) -> int:
        return self.text.count("\n", 0, place) + 1

    def apply(self) -> str:
        """Return the text with every occurrence replaced. A new line ends like the line that it replaces."""
        if not self.line_ends:
            return self.text.replace(self.old, self.new) if self.old else self.text + self.new
        first, *others = self.text.split(self.old) if self.old else (self.text, "")
        passed = first.count("\n")
        result = [_join_line_ends(first, self.line_ends[:passed])]
        for part in others:
            result.append(self.new.replace("\n", self.line_ends[min(passed, len(self.line_ends) - 1)]))
            start = passed + self.old.count("\n")
            passed = start + part.count("\n")
            result.append(_join_line_ends(part, self.line_ends[start:passed]))
        return "".join(result)


def _join_line_ends(text: str, line_ends: Sequence[str]) -> str:
    """Return the text with its real line endings."""
    return "".join(line + end for line, end in zip_longest(text.split("\n"), line_ends, fillvalue=""))


LINES_COMPARED = 5_000
LINES_COMPARED_WELL = 200
"""Lines that are compared by their characters, which takes milliseconds: those that share most words."""
_WORD = re.compile(r"\w+")
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
    text, part = ("\n".join(("", *each, "")) for each in (there, squeezed))
    return text.count("\n", 0, found) + 1 if (found := text.find(part)) >= 0 else 0


def _closest(lines: Sequence[str], wanted: str) -> str:
    from difflib import get_close_matches

    candidates = {line.strip()[:LINE_CHARACTERS]: number for number, line in enumerate(lines[:LINES_COMPARED], 1)}
    words = set(_WORD.findall(wanted[:LINE_CHARACTERS]))
    likely = sorted(candidates, key=lambda line: len(words.intersection(_WORD.findall(line))), reverse=True)
    for close in get_close_matches(wanted[:LINE_CHARACTERS], likely[:LINES_COMPARED_WELL], 1):
        return f" The closest line is {candidates[close]}: {readable(close)[0]}"
    return ""
