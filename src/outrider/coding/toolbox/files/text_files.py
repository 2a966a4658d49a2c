"""Text files: decoding in chunks, and line endings."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from typing import BinaryIO

from outrider.coding.toolbox.tool_errors import ToolCallError, printable
from outrider.conversation.encodings import UNKNOWN, Encoding
from outrider.text import clean

CHUNK = 256 * 1024
"""Bytes or characters handled at once: few enough for the processor's cache."""


def file_chunks(file: BinaryIO, encoding: Encoding, scanned: Callable[[int], object]) -> Iterator[str]:
    """Yield the text of a large file in chunks. `scanned` is called with the number of bytes read so far."""
    decoder = codecs.getincrementaldecoder(encoding.codec)(_error_handler(encoding))
    total = file.seek(len(encoding.mark))
    while chunk := file.read(CHUNK):
        total += len(chunk)
        scanned(total)
        yield decoder.decode(chunk)
    yield decoder.decode(b"", final=True)


def decode_lenient(data: bytes, encoding: Encoding) -> str:
    """Return the text of a file, with invalid bytes escaped or replaced."""
    return data[len(encoding.mark) :].decode(encoding.codec, _error_handler(encoding))


def encode_like(encoding: Encoding, text: str, name: str) -> bytes:
    """Return a text in the encoding of the file that it changes. Raises ToolCallError if that lacks a character."""
    try:
        return encoding.encode(text)
    except UnicodeEncodeError as error:
        missing = printable(text[error.start : error.start + 1])
        kind = "neither UTF-8 nor Windows-1252" if encoding.codec == UNKNOWN else "Windows-1252"
        raise ToolCallError(
            f"{printable(name)} was left as it is: it is {kind}, and {missing} cannot be written in its encoding. "
            "Leave such characters out, or convert the file to UTF-8 with a command first."
        ) from None


def text_chunks(text: str) -> Iterator[str]:
    return (text[start : start + CHUNK] for start in range(0, len(text), CHUNK))


def _error_handler(encoding: Encoding) -> str:
    return "surrogateescape" if encoding.codec in ("utf-8", UNKNOWN) else "replace"


def readable(text: str) -> tuple[str, bool]:
    """Return text that can be shown, and whether invalid UTF-8 was replaced in it."""
    cleaned = clean(text)
    return cleaned.replace("\0", "\N{SYMBOL FOR NULL}"), cleaned is not text


def has_crlf(text: str) -> bool:
    """Return whether most lines end with CR LF."""
    return text.count("\r\n") * 2 > text.count("\n")


def with_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")
