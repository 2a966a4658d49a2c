"""Text in files: how it is encoded, which byte order mark it has, how its lines end; and reading it piece by piece."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from typing import BinaryIO

import msgspec

from outrider.text import clean

HEAD = 8192
"""The bytes at the beginning by which a file is judged."""
PIECE = 256 * 1024
"""Bytes, or characters, that are looked at together: few enough for the processor's cache."""

_CONTROLS = bytes(set(range(1, 32)) - set(b"\t\n\r\f\b\x1b"))
_MOST_CONTROLS = 0.1
"""The share of control characters over which bytes that are not UTF-8 are taken for something else than text."""


class Encoding(msgspec.Struct, frozen=True):
    """How the text of a file becomes bytes, and back without any loss."""

    codec: str = "utf-8"
    mark: bytes = b""
    """The byte order mark."""

    @property
    def errors(self) -> str:
        """What is not valid survives: single bytes in UTF-8, lone halves of a pair in the others."""
        return "surrogateescape" if self.codec == "utf-8" else "surrogatepass"

    def decode(self, data: bytes) -> str:
        """The text without the mark. Encoding it gives the same bytes; raises UnicodeDecodeError where it cannot."""
        return data[len(self.mark) :].decode(self.codec, self.errors)

    def encode(self, text: str) -> bytes:
        """The bytes of a text, after the mark."""
        return self.mark + text.encode(self.codec, self.errors)


_MARKED = (
    Encoding("utf-8", codecs.BOM_UTF8),
    Encoding("utf-32-le", codecs.BOM_UTF32_LE),  # before UTF-16, whose mark it begins with
    Encoding("utf-32-be", codecs.BOM_UTF32_BE),
    Encoding("utf-16-le", codecs.BOM_UTF16_LE),
    Encoding("utf-16-be", codecs.BOM_UTF16_BE),
)


def encoding_of(head: bytes) -> Encoding | None:
    """How a file that begins with these bytes is encoded; None if it is not text.

    >>> encoding_of(b"plain").codec, encoding_of(b"\\x7fELF\\0")
    ('utf-8', None)
    """
    for encoding in _MARKED:
        if head.startswith(encoding.mark):
            return encoding
    return None if _is_binary(head[:HEAD]) else Encoding()


def _is_binary(head: bytes) -> bool:
    if b"\0" in head:
        return True
    if is_utf8(head):
        return False
    controls = len(head) - len(head.translate(None, _CONTROLS))
    return controls > _MOST_CONTROLS * len(head)


def is_utf8(head: bytes) -> bool:
    """Whether the bytes are UTF-8, as far as they go: a character that is cut off at the end is no fault."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def pieces_of_file(file: BinaryIO, encoding: Encoding, scanned: Callable[[int], None]) -> Iterator[str]:
    """The text of a large file, piece by piece, for looking; `scanned` is told how many bytes have been read."""
    decoder = codecs.getincrementaldecoder(encoding.codec)(_lenient(encoding))
    total = file.seek(len(encoding.mark))
    while chunk := file.read(PIECE):
        total += len(chunk)
        scanned(total)
        yield decoder.decode(chunk)
    yield decoder.decode(b"", final=True)


def text_for_looking(data: bytes, encoding: Encoding) -> str:
    """The text of a file, whatever is wrong with it."""
    return data[len(encoding.mark) :].decode(encoding.codec, _lenient(encoding))


def pieces_of_text(text: str) -> Iterator[str]:
    """A text piece by piece."""
    return (text[start : start + PIECE] for start in range(0, len(text), PIECE))


def _lenient(encoding: Encoding) -> str:
    return "surrogateescape" if encoding.codec == "utf-8" else "replace"


def readable(text: str) -> tuple[str, bool]:
    """Text that can be shown, and whether bytes that are not UTF-8 had to be replaced in it."""
    cleaned = clean(text)
    return cleaned.replace("\0", "\N{SYMBOL FOR NULL}"), cleaned is not text


def has_crlf(text: str) -> bool:
    """Whether most lines end with CR LF."""
    return text.count("\r\n") * 2 > text.count("\n")


def with_crlf(text: str) -> str:
    """The text with CR LF at the end of each line."""
    return text.replace("\r\n", "\n").replace("\n", "\r\n")
