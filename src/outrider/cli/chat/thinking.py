"""The reasoning of the model while it streams."""

from __future__ import annotations

import time

from outrider.cli.styles import fit
from outrider.visible_text import safe_line


class Thinking:
    """Collects the reasoning of one reply."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._since = 0.0

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, text: str) -> None:
        """Add a part."""
        self._since = self._since or time.monotonic()
        self._parts.append(text)

    def take(self) -> tuple[str, float]:
        """Return the whole text and how many seconds it took, and begin anew."""
        taken = "".join(self._parts), time.monotonic() - self._since
        self._parts, self._since = [], 0.0
        return taken

    def last_words(self, width: int) -> str:
        """Return the end of the text, on one line."""
        return fit(safe_line("".join(self._parts[-20:]))[-(width - 1) :], width)
