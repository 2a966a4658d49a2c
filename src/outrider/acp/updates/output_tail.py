"""The end of a running command's output, for observers that replace content as a whole."""

from __future__ import annotations

from outrider.text import counted
from outrider.text.terminal import TerminalText

SHOWN_BYTES = 960
"""Bytes of output that are shown while the command runs."""
KEPT_CHARACTERS = 262_144
"""Characters that are kept at least, for a call that ends without new content."""


class OutputTail:
    """The end of one command's output as a terminal shows it, its total size, and the part that is shown."""

    def __init__(self) -> None:
        self.total_bytes = 0
        """Size of the whole output in UTF-8."""
        self.shown = ""
        """The text that is shown, as of the last `refresh`."""
        self.has_new_output = False
        """Whether there is output after that text."""
        self._terminal = TerminalText()
        self._lines = 0
        self._bytes = 0
        self._pieces: list[str] = []
        self._characters = 0

    def append(self, text: str) -> int:
        """Append output. Return its size in bytes."""
        size = _size(text)
        self.total_bytes += size
        self.has_new_output = True
        text = self._terminal.add(text)
        self._pieces.append(text)
        self._characters += len(text)
        self._bytes += _size(text)
        self._lines += text.count("\n")
        if self._characters > 2 * KEPT_CHARACTERS:
            self._pieces = ["".join(self._pieces)[-KEPT_CHARACTERS:]]
            self._characters = len(self._pieces[0])
        return size

    def refresh(self) -> None:
        """Show the newest output."""
        self.shown, self.has_new_output = self.text(SHOWN_BYTES), False

    def text(self, limit: int = KEPT_CHARACTERS) -> str:
        """Return the whole output if it fits; else its last lines, after a line that counts those above."""
        line = self._terminal.line
        return "".join([*self._pieces, line]) if self._bytes + _size(line) <= limit else self._shorten(limit)

    def _shorten(self, limit: int) -> str:
        room = max(1, limit - len(f"… {counted(self._lines, 'line')} above\n".encode()))
        end = self._end(room).encode()[-room:].decode(errors="ignore")
        end = end.partition("\n")[2] or end  # start at the beginning of a line, unless there is only one
        above = self._lines - end.count("\n")
        return f"… {counted(above, 'line')} above\n{end}" if above else f"…{end}"

    def _end(self, characters: int) -> str:
        """Return the last characters."""
        found: list[str] = []
        length = 0
        for piece in (self._terminal.line, *reversed(self._pieces)):
            found.append(piece)
            length += len(piece)
            if length >= characters:
                break
        return "".join(reversed(found))[-characters:]


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
