"""The body of a request: plain bytes, or pieces, so that large files are not copied before they are sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

SLICE = 256 * 1024
"""Bytes that are passed to the network at once."""


class Pieces:
    """A body in pieces that are not joined. It can be sent any number of times."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = tuple(pieces)
        self._size = sum(map(len, self._pieces))

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return b"".join(self._pieces)

    def slices(self) -> Iterator[memoryview]:
        """Yield the bytes in order, in small slices and without copying them."""
        for piece in self._pieces:
            view = memoryview(piece)
            for start in range(0, len(piece), SLICE):
                yield view[start : start + SLICE]


Body: TypeAlias = bytes | Pieces
