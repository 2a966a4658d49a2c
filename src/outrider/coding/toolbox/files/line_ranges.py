"""Numbered lines of a text, read without holding the whole text in memory."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from outrider.coding.toolbox.files.regular_files import readable, text_chunks
from outrider.coding.toolbox.seen_files import SOME, Part
from outrider.coding.toolbox.tool_errors import ToolCallError, printable
from outrider.text import counted

LINES = 2_000
"""Lines shown without a limit from the model."""
LINE_CHARACTERS = 2_000
"""Characters shown of one line."""
CHARACTERS = 45_000
"""Characters shown at once: less than the limit of a result, so that the text is cut between lines."""


class Span(msgspec.Struct, frozen=True):
    """The requested part of a file: lines, pages or cells."""

    first: int
    """Counted from 1."""
    count: int | None
    """None for the default."""

    @classmethod
    def of(cls, offset: int | None, limit: int | None) -> Span:
        """Build a span from the model's arguments. An offset of 0 counts as 1, because many models start at 0."""
        if offset is not None and offset < 0:
            raise ToolCallError(f"offset is {offset}; it must be 1, for the beginning, or more.")
        if limit is not None and limit < 1:
            raise ToolCallError(f"limit is {limit}; it must be 1 or more.")
        return cls(offset or 1, limit)


class Line(msgspec.Struct, frozen=True):
    """A line, or its beginning."""

    text: str
    length: int
    """The number of characters in the whole line."""


class Lines:
    """Iterates over the lines of a text. Only a line feed ends a line; a carriage return before it is dropped."""

    def __init__(self, pieces: Iterable[str]) -> None:
        self._pieces = iter(pieces)
        self._piece = ""
        self._at = 0
        self.passed = 0
        """The number of lines already read or skipped."""

    @property
    def more(self) -> bool:
        while self._at >= len(self._piece):
            piece = next(self._pieces, None)
            if piece is None:
                return False
            self._piece, self._at = piece, 0
        return True

    def skip(self, count: int) -> None:
        while count and self.more:
            # find() is many times faster than count(), and the holes of a sparse file have no line feeds.
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
        if unended and not self.more:  # the last line has no line feed
            self.passed += 1

    def next(self) -> Line:
        """Return the next line; an empty one at the end."""
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


def characters_for(limit: int | None) -> int:
    """Return how many characters to show at once if a result may have so many: less, with room for a note."""
    return CHARACTERS if limit is None else min(CHARACTERS, limit * 9 // 10)


def numbered_lines(
    lines: Lines, span: Span, name: str, total: int | None, characters: int = CHARACTERS
) -> tuple[str, Part]:
    """Return the lines of the span with their numbers, and a note about what was left out; and which lines these are.

    `total` is the number of lines in the text, or None if it is unknown.
    """
    lines.skip(span.first - 1)
    if not lines.more:
        raise ToolCallError(
            f"{printable(name)} has {counted(lines.passed, 'line')}; offset {span.first:,} is past its end."
        )
    taken, replaced, is_cut = _take(lines, span.count or LINES, characters)
    notes = _note(span.first, lines, total)
    if replaced:
        notes += "\n[Bytes that are not UTF-8 are shown as \N{REPLACEMENT CHARACTER}.]"
    part = SOME if is_cut else Part(span.first, lines.passed, not lines.more)
    return "\n".join(taken) + notes, part


def excerpt(text: str, first: int, count: int) -> str:
    """Return some lines of a text with their numbers and without a note."""
    lines = Lines(text_chunks(text))
    lines.skip(first - 1)
    return "\n".join(_take(lines, count)[0])


def _take(lines: Lines, count: int, characters: int = CHARACTERS) -> tuple[list[str], bool, bool]:
    """Return the next lines with their numbers, as many as fit; whether a byte was replaced; whether a line was cut."""
    taken: list[str] = []
    used, replaced, is_cut = 0, False, False
    room = max(characters - LINE_CHARACTERS, characters // 2)
    while len(taken) < count and used < room and lines.more:
        line = lines.next()
        text, not_utf8 = readable(_truncate(line))
        taken.append(f"{lines.passed:>6}\t{text}")
        used += len(taken[-1]) + 1
        replaced = replaced or not_utf8
        is_cut = is_cut or line.length > LINE_CHARACTERS
    return taken, replaced, is_cut


def line_count(text: str) -> int:
    """Return the number of lines. The last line need not end with a line feed."""
    return text.count("\n") + (text != "" and not text.endswith("\n"))


def _truncate(line: Line) -> str:
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
