"""Text in files: how its lines end, and reading it piece by piece."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from typing import BinaryIO

from outrider.conversation.encodings import Encoding
from outrider.text import clean

PIECE = 256 * 1024
"""Bytes, or characters, that are looked at together: few enough for the processor's cache."""


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
