"""The lines at the bottom of the terminal that still change; finished lines scroll away above them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from outrider.cli.styles import columns

BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"
"""Synchronized output: terminals that support it show each drawing at once, without flicker."""
ERASE_LINE = "\x1b[K"
LEAST_WIDTH = 8
"""Columns that lines can always have: their indents and marks alone need some."""


class LiveRegion:
    """Lines, no wider than the terminal, that are redrawn in place.

    A drawing overwrites the former one line by line. It never erases from the cursor to the end of the screen: in the
    first row, tmux and other terminals take that for clearing the screen, and copy what is on it to their scrollback.
    """

    def __init__(self, stream: TextIO, size: Callable[[], tuple[int, int]] | None = None) -> None:
        self._stream = stream
        self._size = size or shutil.get_terminal_size
        self._drawn: list[str] = []
        self._held: list[str] | None = None
        """Permanent lines that wait while another program has the screen."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """Leave the screen to another program until the end of the block. Permanent lines are written then."""
        self.clear()
        self._held = []
        try:
            yield
        finally:
            lines, self._held = self._held, None
            self.commit(lines)

    @property
    def width(self) -> int:
        """Return the columns of the terminal, less one: some terminals wrap a full line."""
        return max(LEAST_WIDTH, self._size()[0] - 1)

    @property
    def height(self) -> int:
        return max(4, self._size()[1])

    def draw(self, lines: Sequence[str]) -> None:
        """Replace the region with these lines; if they do not fit, with the last of them."""
        lines = self._fitting(lines)
        if lines != self._drawn and self._held is None:
            self._replace((), lines)

    def commit(self, lines: Sequence[str], below: Sequence[str] | None = None) -> None:
        """Write permanent lines above the region, then redraw the region: `below`, or unchanged if that is None."""
        if self._held is not None:
            self._held += lines
        elif lines:
            self._replace(lines, self._drawn if below is None else self._fitting(below))

    def clear(self) -> None:
        if self._drawn:
            self._replace((), [])

    def _fitting(self, lines: Sequence[str]) -> list[str]:
        return list(lines[-(self.height - 1) :])

    def _replace(self, permanent: Sequence[str], lines: list[str]) -> None:
        """Overwrite the region from its first row on. Rows that the new lines do not cover are erased first."""
        rows = min(self._rows(self._drawn), max(1, self._size()[1] - 1))
        kept = 0 if permanent else min(rows, len(lines))  # a permanent line may hold a picture: its rows are not known
        up = f"\x1b[{rows}A\r" if rows else "\r"
        down = f"\x1b[{kept}B" if kept else ""
        erased = f"{up}{down}" + f"{ERASE_LINE}\n" * (rows - kept) if rows > kept else ""
        drawing = erased + up + "".join(f"{line}{ERASE_LINE}\n" for line in [*permanent, *lines])
        self._stream.write(f"{BEGIN}{drawing}{END}")
        self._stream.flush()
        self._drawn = lines

    def _rows(self, lines: Sequence[str]) -> int:
        """Return the rows of these lines; in a window that was narrowed, one line covers several."""
        across = max(1, self._size()[0])
        return sum(max(1, -(-columns(line) // across)) for line in lines)
