"""The end of what a running command prints, for observers that are sent the whole content again with every change."""

from __future__ import annotations

from outrider.text import counted

MOST = 960
"""Bytes of the end that are shown while the command runs."""
KEPT = 262_144
"""Characters that are kept at least, for a call that ends without a content of its own."""


class Tail:
    """What one command has printed: its end, its size, and what was shown of it."""

    def __init__(self) -> None:
        self.printed = 0
        """Bytes, in UTF-8."""
        self.shown = ""
        """The text that was last chosen to be shown."""
        self.is_waiting = False
        """Whether there is output after that text."""
        self._lines = 0
        self._pieces: list[str] = []
        self._characters = 0

    def append(self, text: str) -> None:
        """Take more output of the command."""
        self._pieces.append(text)
        self._characters += len(text)
        self.printed += len(text) if text.isascii() else len(text.encode())
        self._lines += text.count("\n")
        self.is_waiting = True
        if self._characters > 2 * KEPT:
            self._pieces = [self._end(KEPT)]
            self._characters = len(self._pieces[0])

    def show(self) -> None:
        """Make the newest output the text that is shown."""
        self.shown, self.is_waiting = self.text(MOST), False

    def text(self, limit: int = KEPT) -> str:
        """Return the last lines within so many bytes, after a line that counts those above; all if they fit."""
        return "".join(self._pieces) if self.printed <= limit else self._shortened(limit)

    def _shortened(self, limit: int) -> str:
        room = max(1, limit - len(f"… {counted(self._lines, 'line')} above\n".encode()))
        end = self._end(room).encode()[-room:].decode(errors="ignore")
        end = end.partition("\n")[2] or end  # from the beginning of a line, unless it is one line
        above = self._lines - end.count("\n")
        return f"… {counted(above, 'line')} above\n{end}" if above else f"…{end}"

    def _end(self, characters: int) -> str:
        """Return so many characters of the end."""
        found: list[str] = []
        length = 0
        for piece in reversed(self._pieces):
            found.append(piece)
            length += len(piece)
            if length >= characters:
                break
        return "".join(reversed(found))[-characters:]
