"""Detect the encoding of text files from their bytes, and decode and encode without loss."""

from __future__ import annotations

import codecs

import msgspec

HEAD = 8192
"""The number of bytes at the beginning of a file that are examined."""

_CONTROLS = bytes(set(range(1, 32)) - set(b"\t\n\r\f\b\x1b"))
_MOST_CONTROLS = 0.1
"""The share of control characters above which bytes that are not UTF-8 count as binary."""
_ASCII_SHARE = 0.4
"""The share of characters with a zero byte above which text without a byte order mark counts as UTF-16."""

_FEWEST = 4
"""The smallest number of characters in which UTF-16 is detected."""


class Encoding(msgspec.Struct, frozen=True):
    """A lossless text encoding: a codec and an optional byte order mark."""

    codec: str = "utf-8"
    mark: bytes = b""
    """The byte order mark."""

    @property
    def errors(self) -> str:
        """The error handler that preserves invalid input: single bytes in UTF-8, lone surrogates in the others."""
        return "surrogateescape" if self.codec == "utf-8" else "surrogatepass"

    def decode(self, data: bytes) -> str:
        """Return the text without the mark. Encoding it restores the bytes. Raise UnicodeDecodeError if impossible."""
        return data[len(self.mark) :].decode(self.codec, self.errors)

    def encode(self, text: str) -> bytes:
        """Return the mark and the bytes of a text."""
        return self.mark + text.encode(self.codec, self.errors)


_MARKED = (
    Encoding("utf-8", codecs.BOM_UTF8),
    Encoding("utf-32-le", codecs.BOM_UTF32_LE),  # before UTF-16, whose mark it begins with
    Encoding("utf-32-be", codecs.BOM_UTF32_BE),
    Encoding("utf-16-le", codecs.BOM_UTF16_LE),
    Encoding("utf-16-be", codecs.BOM_UTF16_BE),
)


def encoding_of(head: bytes) -> Encoding | None:
    """Return the encoding of a file from its first bytes; None if it is not text.

    >>> encoding_of(b"plain").codec, encoding_of(b"\\x7fELF\\0"), encoding_of("plain".encode("utf-16-le")).codec
    ('utf-8', None, 'utf-16-le')
    """
    head = head[:HEAD]
    for encoding in _MARKED:
        if head.startswith(encoding.mark):
            return encoding
    if b"\0" in head:
        return _unmarked_utf16(head)
    return None if _is_binary(head) else Encoding()


def is_utf8(head: bytes) -> bool:
    """Return whether the bytes are UTF-8. A truncated character at the end is accepted."""
    return _try_decode(head, "utf-8") is not None


def decoded(data: bytes) -> str:
    """Decode a file for reading: by its byte order mark, else as UTF-16 or UTF-8 if valid, else as Windows-1252, the
    encoding of nearly all other Western text. NUL characters become visible.

    >>> decoded("déjà".encode("utf-16")), decoded("déjà".encode("latin-1")), decoded(b"a\\0b")
    ('déjà', 'déjà', 'a␀b')
    """
    encoding = encoding_of(data) or Encoding()
    if encoding.codec == "utf-8":
        text = _utf8_or_latin(data[len(encoding.mark) :])
    else:
        text = data[len(encoding.mark) :].decode(encoding.codec, "replace")
    return text.replace("\0", "\N{SYMBOL FOR NULL}")


def _utf8_or_latin(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        pass
    escaped = data.decode("utf-8", "surrogateescape")
    faults = len(escaped) - len(escaped.encode("utf-8", "ignore").decode())
    high = len(data) - len(data.translate(None, bytes(range(128, 256))))
    # Text is still UTF-8 if invalid bytes are no more than the bytes of valid multi-byte characters.
    return data.decode("utf-8" if high - faults >= faults else "cp1252", "replace")


def _is_binary(head: bytes) -> bool:
    if is_utf8(head):
        return False
    controls = len(head) - len(head.translate(None, _CONTROLS))
    return controls > _MOST_CONTROLS * len(head)


def _unmarked_utf16(head: bytes) -> Encoding | None:
    """Detect UTF-16 without a mark, as Windows tools write it: every other byte is mostly zero."""
    pairs = len(head) // 2
    even, odd = head[::2].count(0), head[1::2].count(0)
    if len(head) % 2 or pairs < _FEWEST or min(even, odd) or max(even, odd) <= _ASCII_SHARE * pairs:
        return None
    codec = "utf-16-le" if odd > even else "utf-16-be"
    text = _try_decode(head, codec)
    if text is None or len(text) - len(text.translate(dict.fromkeys(_CONTROLS))) > _MOST_CONTROLS * len(text):
        return None
    return Encoding(codec)


def _try_decode(head: bytes, codec: str) -> str | None:
    try:
        return codecs.getincrementaldecoder(codec)().decode(head)
    except UnicodeDecodeError:
        return None
