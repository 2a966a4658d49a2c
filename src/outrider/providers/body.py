"""The body of a request: plain bytes, or pieces of which the large files are never copied before they are sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

import msgspec

LARGE = 64 * 1024
"""Bytes from which an encoded file stays a piece of its own; smaller ones are cheaper to copy than to keep apart."""
SLICE = 256 * 1024
"""Bytes that are handed to the network at once."""
_PLACE = b"\0"
"""Marks the place of a file in JSON, which never has this byte: in strings it is escaped."""


class Embedded:
    """A JSON string made of base64 that is at hand as bytes, and of what stands before it."""

    __slots__ = ("before", "data")

    def __init__(self, data: bytes, before: bytes = b"") -> None:
        self.data = data
        self.before = before


class Pieces:
    """A body that was not joined. It can be sent any number of times."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = tuple(pieces)
        self._size = sum(map(len, self._pieces))

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return b"".join(self._pieces)

    def slices(self) -> Iterator[memoryview]:
        """The bytes in order, a little at a time and without a copy."""
        for piece in self._pieces:
            view = memoryview(piece)
            for start in range(0, len(piece), SLICE):
                yield view[start : start + SLICE]


Body: TypeAlias = bytes | Pieces


class Fragment(msgspec.Struct, frozen=True):
    """A message as one API's items, encoded and joined by commas; empty if there are none."""

    text: bytes
    """The JSON without the large files."""
    files: tuple[tuple[int, bytes], ...] = ()
    """Each large file with its place in the text."""
    images: int = 0
    """How many pictures it has."""
    words: int = 0
    """Bytes of text that come from files."""


def fragment(items: Iterable[Any]) -> Fragment:
    """Encode the items of a message."""
    items = list(items)
    try:
        return Fragment(b",".join(map(msgspec.json.encode, items)))
    except TypeError:  # only files have a type that is not JSON's, and few messages have files
        return _with_files(items)


def _with_files(items: Sequence[Any]) -> Fragment:
    large: list[bytes] = []

    def embed(value: Any) -> msgspec.Raw:
        if not isinstance(value, Embedded):
            raise TypeError(f"{type(value).__name__} has no place in a request")
        if len(value.data) < LARGE:
            return msgspec.Raw(b'"%b%b"' % (value.before, value.data))
        large.append(value.data)
        return msgspec.Raw(b'"%b%b"' % (value.before, _PLACE))

    text = b",".join([msgspec.json.encode(item, enc_hook=embed) for item in items])
    if not large:
        return Fragment(text)
    parts = text.split(_PLACE)
    places = accumulate(map(len, parts[:-1]))
    return Fragment(b"".join(parts), tuple(zip(places, large, strict=True)))


def interleaved(text: bytes | bytearray, files: Sequence[tuple[int, bytes]]) -> Iterator[bytes]:
    """The text with each file in its place."""
    view = memoryview(text)
    places = [0, *(place for place, _ in files), len(text)]
    for (start, end), (_, data) in zip(pairwise(places), [*files, (0, b"")], strict=True):
        yield bytes(view[start:end])
        if data:
            yield data
