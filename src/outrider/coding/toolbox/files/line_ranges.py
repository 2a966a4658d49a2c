"""A range of the lines of a text with their numbers, found without holding the whole text."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from outrider.coding.toolbox.files.text_files import pieces_of_text, readable
from outrider.coding.toolbox.refusals import RefusalError, shown
from outrider.text import counted

LINES = 2_000
"""Lines that are shown when nobody says how many."""
LINE_CHARACTERS = 2_000
"""What is shown of one line."""
CHARACTERS = 45_000
"""What is shown at once: less than a result may have, so that it is cut between lines and not in the middle."""


class Span(msgspec.Struct, frozen=True):
    """What part of a file is asked for: lines, pages or cells."""

    first: int
    """Counted from 1."""
    count: int | None
    """None if it was left open."""

    @classmethod
    def of(cls, offset: int | None, limit: int | None) -> Span:
        """What the model asks for. Many begin to count at 0."""
        if offset is not None and offset < 0:
            raise RefusalError(f"offset is {offset}; it must be 1, for the beginning, or more.")
        if limit is not None and limit < 1:
            raise RefusalError(f"limit is {limit}; it must be 1 or more.")
        return cls(offset or 1, limit)


class Line(msgspec.Struct, frozen=True):
    """A line, or its beginning."""

    text: str
    length: int
    """How many characters it has in all."""


class Lines:
    """Goes through a text line by line. Only a line feed ends a line; a carriage return before it is not shown."""

    def __init__(self, pieces: Iterable[str]) -> None:
        self._pieces = iter(pieces)
        self._piece = ""
        self._at = 0
        self.passed = 0
        """How many lines are behind."""

    @property
    def more(self) -> bool:
        """Whether there is a further line."""
        while self._at >= len(self._piece):
            piece = next(self._pieces, None)
            if piece is None:
                return False
            self._piece, self._at = piece, 0
        return True

    def skip(self, count: int) -> None:
        """Pass over lines, as many of them as there are."""
        while count and self.more:
            # Finding is many times as fast as counting, and the holes of a sparse file have nothing to count.
            breaks = self._piece.count("\n", self._at) if self._piece.find("\n", self._at) >= 0 else 0
            if breaks < count:
                self._skip_piece(breaks)
                count -= breaks
                continue
            for _ in range(count):
                self._at = self._piece.index("\n", self._at) + 1
            self.passed += count
            count = 0

    def _skip_piece(self, breaks: int) -> None:
        unended = not self._piece.endswith("\n")
        self.passed += breaks
        self._at = len(self._piece)
        if unended and not self.more:  # the last line, which nothing ends
            self.passed += 1

    def next(self) -> Line:
        """The next line; an empty one at the end."""
        kept, length, ended = "", 0, False
        while not ended and self.more:
            end = self._piece.find("\n", self._at)
            ended = end >= 0
            stop = end if ended else len(self._piece)
            if len(kept) <= LINE_CHARACTERS:
                kept += self._piece[self._at : min(stop, self._at + LINE_CHARACTERS + 1)]
            length += stop - self._at
            self._at = stop + ended
        self.passed += 1
        if len(kept) == length and kept.endswith("\r") and ended:
            return Line(kept[:-1], length - 1)
        return Line(kept, length)


def numbered(lines: Lines, span: Span, name: str, total: int | None) -> str:
    """The lines of the span with their numbers, and a note where something was left out.

    `total` is how many lines there are, None if it is not known.
    """
    lines.skip(span.first - 1)
    if not lines.more:
        raise RefusalError(f"{shown(name)} has {counted(lines.passed, 'line')}; offset {span.first:,} is past its end.")
    taken, replaced = _taken(lines, span.count or LINES)
    notes = _note(span.first, lines, total)
    if replaced:
        notes += "\n[Bytes that are not UTF-8 are shown as \N{REPLACEMENT CHARACTER}.]"
    return "\n".join(taken) + notes


def lines_around(text: str, first: int, count: int) -> str:
    """Some lines of a text with their numbers, and no note."""
    lines = Lines(pieces_of_text(text))
    lines.skip(first - 1)
    return "\n".join(_taken(lines, count)[0])


def _taken(lines: Lines, count: int) -> tuple[list[str], bool]:
    """The next lines with their numbers, as many as fit; and whether any byte of them had to be replaced."""
    taken: list[str] = []
    used, replaced = 0, False
    while len(taken) < count and used < CHARACTERS - LINE_CHARACTERS and lines.more:
        text, not_utf8 = readable(_shortened(lines.next()))
        taken.append(f"{lines.passed:>6}\t{text}")
        used += len(taken[-1]) + 1
        replaced = replaced or not_utf8
    return taken, replaced


def line_count(text: str) -> int:
    """How many lines a text has; the last need not be ended."""
    return text.count("\n") + (text != "" and not text.endswith("\n"))


def _shortened(line: Line) -> str:
    if line.length <= LINE_CHARACTERS:
        return line.text
    left_out = f"{line.length - LINE_CHARACTERS:,} more characters"
    return f"{line.text[:LINE_CHARACTERS]} [… {left_out} in this line]"


def _note(first: int, lines: Lines, total: int | None) -> str:
    last = lines.passed
    if lines.more:
        of_total = "; more follows" if total is None else f" of {total:,}"
        return f"\n[Lines {first:,} to {last:,}{of_total}. Read on with offset={last + 1}.]"
    return f"\n[Lines {first:,} to {last:,}, the end.]" if first > 1 else ""
