"""The end of what a running command prints, for observers that are sent the whole content again with every change."""

from __future__ import annotations

from outrider.text import counted

SHOWN_BYTES = 960
"""Bytes of the end that are shown while the command runs."""
KEPT_CHARACTERS = 262_144
"""Characters that are kept at least, for a call that ends without a content of its own."""


class OutputTail:
    """What one command has printed: its end, its size, and what was shown of it."""

    def __init__(self) -> None:
        self.total_bytes = 0
        """Bytes, in UTF-8."""
        self.shown = ""
        """The text that was last chosen to be shown."""
        self.has_new_output = False
        """Whether there is output after that text."""
        self._lines = 0
        self._pieces: list[str] = []
        self._characters = 0

    def append(self, text: str) -> None:
        """Take more output of the command."""
        self._pieces.append(text)
        self._characters += len(text)
        self.total_bytes += len(text) if text.isascii() else len(text.encode())
        self._lines += text.count("\n")
        self.has_new_output = True
        if self._characters > 2 * KEPT_CHARACTERS:
            self._pieces = [self._end(KEPT_CHARACTERS)]
            self._characters = len(self._pieces[0])

    def refresh(self) -> None:
        """Make the newest output the text that is shown."""
        self.shown, self.has_new_output = self.text(SHOWN_BYTES), False

    def text(self, limit: int = KEPT_CHARACTERS) -> str:
        """Return the last lines within so many bytes, after a line that counts those above; all if they fit."""
        return "".join(self._pieces) if self.total_bytes <= limit else self._shortened(limit)

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
