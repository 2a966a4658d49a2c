"""Replacing one text by another inside a third, whichever way its lines end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest

import msgspec

PLACES = 20
"""Places of which the line is told."""


class Replacement(msgspec.Struct, frozen=True):
    """One text for another, in a text whose lines may end with CR LF: a line feed in either then stands for both.

    >>> Replacement.within("one\\r\\ntwo\\r\\n", "one\\ntwo", "1\\n2").all()
    '1\\r\\n2\\r\\n'
    """

    text: str
    """Where to replace, with plain line feeds."""
    old: str
    new: str
    ends: Sequence[str] = ()
    """How each line really ends, where that is not always a line feed."""

    @classmethod
    def within(cls, text: str, old: str, new: str) -> Replacement:
        """Prepare to replace `old` by `new` in the text."""
        if "\r\n" not in text:
            return cls(text, old, new)
        plain, old, new = (each.replace("\r\n", "\n") for each in (text, old, new))
        ends = ["\r\n" if line.endswith("\r") else "\n" for line in text.split("\n")[:-1]]
        return cls(plain, old, new, ends)

    def places(self) -> list[int]:
        """Where the first occurrences begin; they may overlap when there are only two."""
        found = list(islice(self._occurrences(), PLACES))
        if len(found) == 1 and (overlapping := self.text.find(self.old, found[0] + 1)) >= 0:
            found.append(overlapping)
        return found

    def _occurrences(self) -> Iterator[int]:
        place = self.text.find(self.old)
        while place >= 0:
            yield place
            place = self.text.find(self.old, place + len(self.old))

    def count(self) -> int:
        """How often it would be replaced."""
        return self.text.count(self.old)

    def line_of(self, place: int) -> int:
        """The number of the line at a place."""
        return self.text.count("\n", 0, place) + 1

    def all(self) -> str:
        """The text with each occurrence replaced; a new line ends as the one in whose place it stands."""
        if not self.ends:
            return self.text.replace(self.old, self.new)
        first, *others = self.text.split(self.old)
        passed = first.count("\n")
        result = [_ended(first, self.ends[:passed])]
        for part in others:
            result.append(self.new.replace("\n", self.ends[min(passed, len(self.ends) - 1)]))
            start = passed + self.old.count("\n")
            passed = start + part.count("\n")
            result.append(_ended(part, self.ends[start:passed]))
        return "".join(result)


def _ended(text: str, ends: Sequence[str]) -> str:
    """The text with the ends that its lines really have."""
    return "".join(line + end for line, end in zip_longest(text.split("\n"), ends, fillvalue=""))
