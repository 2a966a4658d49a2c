"""Encode the items of a message as JSON. Large files stay apart from it, so that they are not copied."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

import msgspec

from outrider.providers.rendering.shown_files import ShownFile

LARGE = 64 * 1024
"""Bytes from which an encoded file stays a piece of its own. Smaller files are cheaper to copy than to keep apart."""
_PLACEHOLDER = b"\0"
"""Marks the position of a file. JSON never contains this byte: in strings it is escaped."""


class Base64String:
    """A JSON string that consists of a prefix and of base64 data, which is kept as bytes."""

    __slots__ = ("data", "prefix")

    def __init__(self, data: bytes, prefix: bytes = b"") -> None:
        self.data = data
        self.prefix = prefix


class Rendered(msgspec.Struct, frozen=True):
    """One message in the JSON of one API, with all that rendering found out about it."""

    json: bytes
    """The API's items, joined by commas, without the large files. Empty if the message has no items."""
    files: tuple[tuple[int, bytes], ...] = ()  # each large file with its position in the JSON
    shown: tuple[ShownFile, ...] = ()  # the files that the message shows
    text_bytes: int = 0  # bytes of text that come from files
    notices: tuple[str, ...] = ()  # what the user should know, such as a file that the model cannot see


def encode_items(
    items: Iterable[Any], shown: tuple[ShownFile, ...] = (), text_bytes: int = 0, notices: tuple[str, ...] = ()
) -> Rendered:
    items = list(items)
    try:
        return Rendered(b",".join(map(msgspec.json.encode, items)), (), shown, text_bytes, notices)
    except TypeError:  # only files have a type that is not JSON's, and few messages have files
        json, files = _encode_with_files(items)
        return Rendered(json, files, shown, text_bytes, notices)


def _encode_with_files(items: Sequence[Any]) -> tuple[bytes, tuple[tuple[int, bytes], ...]]:
    large: list[bytes] = []

    def embed(value: Any) -> msgspec.Raw:
        if not isinstance(value, Base64String):
            raise TypeError(f"{type(value).__name__} cannot be part of a request")
        if len(value.data) < LARGE:
            return msgspec.Raw(b'"%b%b"' % (value.prefix, value.data))
        large.append(value.data)
        return msgspec.Raw(b'"%b%b"' % (value.prefix, _PLACEHOLDER))

    json = b",".join([msgspec.json.encode(item, enc_hook=embed) for item in items])
    if not large:
        return json, ()
    parts = json.split(_PLACEHOLDER)
    positions = accumulate(map(len, parts[:-1]))
    return b"".join(parts), tuple(zip(positions, large, strict=True))


def interleave(json: bytes | bytearray, files: Sequence[tuple[int, bytes]]) -> Iterator[bytes]:
    view = memoryview(json)
    positions = [0, *(position for position, _ in files), len(json)]
    for (start, end), (_, data) in zip(pairwise(positions), [*files, (0, b"")], strict=True):
        yield bytes(view[start:end])
        if data:
            yield data
