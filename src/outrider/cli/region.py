"""The lines at the bottom of the terminal that still change; what is finished scrolls away above them for good."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from typing import TextIO

from outrider.cli.styles import columns

BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"
"""Around one drawing: terminals that know these show it in one piece."""


class Region:
    """Draws lines that fit the terminal's width, and draws them again in the same place."""

    def __init__(self, stream: TextIO, size: Callable[[], tuple[int, int]] | None = None) -> None:
        self._stream = stream
        self._size = size or shutil.get_terminal_size
        self._drawn: list[str] = []

    @property
    def width(self) -> int:
        """Columns of the terminal, less one: a full line would wrap on some."""
        return max(1, self._size()[0] - 1)

    @property
    def height(self) -> int:
        """Lines of the terminal."""
        return max(4, self._size()[1])

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines instead of those that stand there; only the last ones if there are too many."""
        lines = list(lines[-(self.height - 1) :])
        if lines != self._drawn:
            self._write(self._up() + "".join(f"{line}\x1b[K\n" for line in lines))
            self._drawn = lines

    def commit(self, lines: Sequence[str], below: Sequence[str] | None = None) -> None:
        """Let lines stand above for good; what changes is drawn anew below them, as it was or as it is now."""
        if lines:
            kept = self._drawn if below is None else list(below[-(self.height - 1) :])
            self._write(self._up() + "".join(f"{line}\x1b[K\n" for line in [*lines, *kept]))
            self._drawn = kept

    def clear(self) -> None:
        """Take away what changes."""
        if self._drawn:
            self._write(self._up())
            self._drawn = []

    def _up(self) -> str:
        """To the first line of what is drawn. A window that became narrower has broken its lines into several."""
        across = max(1, self._size()[0])
        rows = sum(max(1, -(-columns(line) // across)) for line in self._drawn)
        return f"\x1b[{rows}A\r\x1b[J" if rows else "\r"

    def _write(self, text: str) -> None:
        self._stream.write(f"{BEGIN}{text}{END}")
        self._stream.flush()
