"""The end of what a running command prints, and how much of it may be shown before the command is done.

Where an observer can only be sent the whole content again, all of it together must not outgrow the output: a flush is
due when as much was printed as it would cost. So the spaces between flushes grow with the output, up to a fixed tail.
"""

from __future__ import annotations

from outrider.text import counted
from outrider.updates.sizes import size_of_text

MOST, LEAST = 4_096, 256
"""Bytes of a tail: a quarter of what was printed, between these."""
KEPT = 262_144
"""Characters that are kept at least, for a call that ends without a content of its own."""
QUIET, PATIENCE = 0.5, 2.0
"""Seconds without more output, and of more and more of it, after which it is shown in a smaller tail if it may be."""
_FREE = 1_024
"""Bytes that may be sent on top, so that a short command is live."""
_ENVELOPE = 256
"""Bytes around the text of a flush."""
_SMALLEST = 64


class Tail:
    """What one command has printed: its end, its size, and what was shown of it."""

    def __init__(self) -> None:
        self.printed = 0
        """Bytes, in UTF-8."""
        self.shown = ""
        """The text that was last chosen to be shown."""
        self._lines = 0
        self._pieces: list[str] = []
        self._characters = 0
        self._waiting_since: float | None = None
        self._printed_at = 0.0

    def append(self, text: str, now: float) -> None:
        """The command has printed more."""
        self._pieces.append(text)
        self._characters += len(text)
        self.printed += len(text) if text.isascii() else len(text.encode())
        self._lines += text.count("\n")
        self._printed_at = now
        if self._waiting_since is None:
            self._waiting_since = now
        if self._characters > 2 * KEPT:
            self._pieces = [self._end(KEPT)]
            self._characters = len(self._pieces[0])

    @property
    def is_waiting(self) -> bool:
        """Whether there is output that was not shown."""
        return self._waiting_since is not None

    def choose(self, now: float, spent: int, *, hurried: bool) -> bool:
        """Choose what to show now, if a flush is due after so many bytes of content: then `shown` has it."""
        if self._waiting_since is None:
            return False
        wanted = min(MOST, max(LEAST, self.printed // 4))
        room = self._room(spent, is_late=False)
        if room < min(wanted, self.printed):
            room = self._room(spent, is_late=True)
            if room < _SMALLEST or not (hurried or self.is_overdue(now)):
                return False
        text = self._fitting(min(wanted, room), room)
        if text is None:
            return False
        self.shown, self._waiting_since = text, None
        return True

    def _room(self, spent: int, *, is_late: bool) -> int:
        """What a text may take now. A part is set aside for what is late: last words before a silence must be seen."""
        allowed = self.printed * 7 // 8 + _FREE if is_late else self.printed * 3 // 4 + _FREE // 2
        return allowed - spent - _ENVELOPE

    def is_overdue(self, now: float) -> bool:
        """Whether output has waited for long: if it may not be shown now, then only more output will change that."""
        if self._waiting_since is None:
            return False
        return now - self._printed_at >= QUIET or now - self._waiting_since >= PATIENCE

    def text(self, limit: int | None = None) -> str:
        """The last lines within so many bytes, after a line that says how many are above them; all if they fit.

        Without a limit: all that is kept.
        """
        if self.printed <= (KEPT if limit is None else limit):
            return "".join(self._pieces)
        return self._shortened(KEPT if limit is None else limit)

    def _fitting(self, limit: int, room: int) -> str | None:
        """The text within the limit that takes no more than the room as JSON: escapes make it longer than it seems."""
        for _ in range(3):
            text = self.text(limit)
            over = size_of_text(text) - room
            if over <= 0:
                return text
            limit = min(limit, self.printed) - over
            if limit < _SMALLEST:
                return None
        return None

    def _shortened(self, limit: int) -> str:
        room = max(1, limit - len(f"… {counted(self._lines, 'line')} above\n".encode()))
        end = self._end(room).encode()[-room:].decode(errors="ignore")
        end = end.partition("\n")[2] or end  # from the beginning of a line, unless it is one line
        above = self._lines - end.count("\n")
        return f"… {counted(above, 'line')} above\n{end}" if above else f"…{end}"

    def _end(self, characters: int) -> str:
        """So many characters of the end."""
        found: list[str] = []
        length = 0
        for piece in reversed(self._pieces):
            found.append(piece)
            length += len(piece)
            if length >= characters:
                break
        return "".join(reversed(found))[-characters:]
