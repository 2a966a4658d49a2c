"""Detect the encoding of text files from their bytes, and decode and encode without loss."""

from __future__ import annotations

import codecs

import msgspec

HEAD = 8192
"""The number of bytes at the beginning of a file that are examined."""

CHUNK = 1024 * 1024
"""Bytes that are decoded at once."""

_CONTROLS = bytes(set(range(1, 32)) - set(b"\t\n\r\f\b\x1b"))
_MOST_CONTROLS = 0.1
"""The share of control characters above which bytes that are not UTF-8 count as binary."""
_ASCII_SHARE = 0.4
"""The share of characters with a zero byte above which text without a byte order mark counts as UTF-16."""

_FEWEST = 4
"""The smallest number of characters in which UTF-16 is detected."""

WINDOWS = "cp1252"
"""The encoding of nearly all Western text that is not Unicode."""
UNKNOWN = "ascii"
"""The codec for text in an unknown encoding: what is not ASCII is kept byte by byte, and nothing of it is added."""


class Encoding(msgspec.Struct, frozen=True):
    """A lossless text encoding: a codec and an optional byte order mark."""

    codec: str = "utf-8"
    mark: bytes = b""
    """The byte order mark."""

    @property
    def errors(self) -> str:
        """The error handler that preserves invalid input: single bytes, or lone surrogates in UTF-16 and UTF-32."""
        if self.codec == WINDOWS:
            return "strict"
        return "surrogateescape" if self.codec in ("utf-8", UNKNOWN) else "surrogatepass"

    def decode(self, data: bytes) -> str:
        """Return the text without the mark. Encoding it restores the bytes. Raise UnicodeDecodeError if impossible."""
        return data[len(self.mark) :].decode(self.codec, self.errors)

    def encode(self, text: str) -> bytes:
        """Return the mark and the bytes of a text. Raise UnicodeEncodeError if the encoding lacks a character."""
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
    encoding = text_encoding(data) or Encoding()
    codec = WINDOWS if encoding.codec == UNKNOWN else encoding.codec
    text = data[len(encoding.mark) :].decode(codec, "replace")
    return text.replace("\0", "\N{SYMBOL FOR NULL}")


def text_encoding(data: bytes, *, is_whole: bool = True) -> Encoding | None:
    """Return the encoding of a text from all of its bytes, or from the first ones; None if it is not text.

    >>> text_encoding("Zürich".encode()).codec, text_encoding("Zürich".encode("latin-1")).codec
    ('utf-8', 'cp1252')
    """
    encoding = encoding_of(data)
    if encoding is None or encoding.codec != "utf-8" or encoding.mark or _is_mostly_utf8(data, is_whole):
        return encoding
    try:
        data.decode(WINDOWS)
    except UnicodeDecodeError:
        return Encoding(UNKNOWN)
    return Encoding(WINDOWS)


def _is_mostly_utf8(data: bytes, is_whole: bool) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(data), CHUNK):  # a large text is not in memory twice
            decoder.decode(data[start : start + CHUNK], is_whole and start + CHUNK >= len(data))
    except UnicodeDecodeError:
        pass
    else:
        return True
    escaped = data.decode("utf-8", "surrogateescape")
    faults = len(escaped) - len(escaped.encode("utf-8", "ignore").decode())
    high = len(data) - len(data.translate(None, bytes(range(128, 256))))
    # Text is still UTF-8 if invalid bytes are no more than the bytes of valid multi-byte characters.
    return high - faults >= faults


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
