"""Colours and widths of lines in the terminal."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Sequence

BOLD, DIM, ITALIC, RED, GREEN, YELLOW, CYAN = (f"\x1b[{code}m" for code in (1, 2, 3, 31, 32, 33, 36))
COLOURS = (RED, GREEN, YELLOW, CYAN)
RESET = "\x1b[0m"
LEAST_TEXT = 10
"""Columns that a text beside something else gets, however narrow the window is."""
TAB = "    "
"""Shown instead of a tab, whose width would depend on its column."""
_CODES = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;[^\x1b]*\x1b\\")
"""Styles, and the two ends of a link."""


def styled(text: str, *styles: str) -> str:
    """Return the text with style codes; without colours if NO_COLOR is set."""
    if os.environ.get("NO_COLOR"):
        styles = tuple(each for each in styles if each not in COLOURS)
    return f"{''.join(styles)}{text}{RESET}" if text and styles else text


def unstyled(text: str) -> str:
    return _CODES.sub("", text)


def fit(text: str, width: int) -> str:
    """Truncate plain text to a number of columns, with an ellipsis if it was cut.

    >>> fit("abcdef", 4), fit("abc", 4)
    ('abc…', 'abc')
    """
    text = text.replace("\t", TAB)
    if columns(text) <= width:
        return text
    if width < 1:
        return ""
    used, end = 0, 0
    for end, character in enumerate(text):  # noqa: B007 - `end` is used after the loop
        used += _columns_of(character)
        if used > width - 1:
            break
    return f"{text[:end]}…"


def wrap_columns(text: str, width: int) -> Iterator[str]:
    """Split a line of plain text into pieces of at most `width` columns; nothing is left out.

    >>> list(wrap_columns("abcdef", 4))
    ['abcd', 'ef']
    """
    piece, used = "", 0
    for character in text.replace("\t", TAB):
        wide = _columns_of(character)
        if piece and used + wide > width:
            yield piece
            piece, used = "", 0
        piece += character
        used += wide
    yield piece


def wrap_words(text: str, width: int) -> Iterator[str]:
    """Split a line of plain text into pieces of at most `width` columns, between words where that is possible.

    Nothing is left out: a space at a break stays at the end of its line, so a line without one is a broken word.

    >>> list(wrap_words("one two abcdef", 5))
    ['one ', 'two ', 'abcde', 'f']
    """
    text = text.replace("\t", TAB)
    start, used, after_word = 0, 0, 0  # where the piece begins, its columns, and where it can end between words
    for at, character in enumerate(text):
        used += _columns_of(character)
        if used > width and at > start:
            end = after_word if after_word > start else at
            yield text[start:end]
            start, used = end, columns(text[end : at + 1])
        if character == " " and text[start:at].strip():
            after_word = at + 1
    yield text[start:]


def hanging(head: str, text: str, width: int) -> Iterator[str]:
    """Yield a text between words, its lines below each other after a head, which may be styled."""
    indent = columns(head)
    for number, line in enumerate(wrap_words(text, max(LEAST_TEXT, width - indent))):
        yield f"{' ' * indent if number else head}{line}"


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows of cells as lines, the first column on the left, the others on the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *cells in rows:
        others = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        yield "  ".join([name.ljust(widths[0]), *others])


def columns(text: str) -> int:
    """Return the width of the text on a terminal, without its style codes."""
    text = unstyled(text)
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def _columns_of(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def home_relative(folder: str | os.PathLike[str]) -> str:
    """Return a folder's path with ~ for the home folder."""
    home = os.path.expanduser("~")
    text = str(folder)
    return f"~{text[len(home) :]}" if home != "/" and (text == home or text.startswith(f"{home}/")) else text
