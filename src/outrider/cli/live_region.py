"""The lines at the bottom of the terminal that still change; finished lines scroll away above them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from typing import TextIO

from outrider.cli.styles import columns

BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"
"""Synchronized output: terminals that support it show each drawing at once, without flicker."""


class LiveRegion:
    """Lines, no wider than the terminal, that are redrawn in place."""

    def __init__(self, stream: TextIO, size: Callable[[], tuple[int, int]] | None = None) -> None:
        self._stream = stream
        self._size = size or shutil.get_terminal_size
        self._drawn: list[str] = []

    @property
    def width(self) -> int:
        """Return the columns of the terminal, less one: some terminals wrap a full line."""
        return max(1, self._size()[0] - 1)

    @property
    def height(self) -> int:
        """Return the rows of the terminal."""
        return max(4, self._size()[1])

    def draw(self, lines: Sequence[str]) -> None:
        """Replace the region with these lines; if they do not fit, with the last of them."""
        lines = list(lines[-(self.height - 1) :])
        if lines != self._drawn:
            self._write(self._up() + "".join(f"{line}\x1b[K\n" for line in lines))
            self._drawn = lines

    def commit(self, lines: Sequence[str], below: Sequence[str] | None = None) -> None:
        """Write permanent lines above the region, then redraw the region: `below`, or unchanged if that is None."""
        if lines:
            kept = self._drawn if below is None else list(below[-(self.height - 1) :])
            self._write(self._up() + "".join(f"{line}\x1b[K\n" for line in [*lines, *kept]))
            self._drawn = kept

    def clear(self) -> None:
        """Erase the region."""
        if self._drawn:
            self._write(self._up())
            self._drawn = []

    def _up(self) -> str:
        """Return the codes that move to the region's first line. In a narrowed window, one line covers several rows."""
        across = max(1, self._size()[0])
        rows = sum(max(1, -(-columns(line) // across)) for line in self._drawn)
        return f"\x1b[{rows}A\r\x1b[J" if rows else "\r"

    def _write(self, text: str) -> None:
        self._stream.write(f"{BEGIN}{text}{END}")
        self._stream.flush()
