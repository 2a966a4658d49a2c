"""Long pastes: the line shows `[600 pasted lines]`, the message has the whole text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from prompt_toolkit.history import FileHistory

MOST_LINES, MOST_CHARACTERS = 10, 2_000
"""Pastes up to this size stay as they are."""
_BEGIN, _END = "\x1b[200~", "\x1b[201~"
"""Around a paste in the history file, as terminals send it."""
_MARKED = re.compile(f"{re.escape(_BEGIN)}(.*?){re.escape(_END)}", re.DOTALL)


class Pastes:
    """The long pastes of a chat, by the words that stand for them in the line."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def collapse(self, text: str) -> str:
        """Return the words that stand for a long text; a short text unchanged."""
        lines = text.count("\n") + (not text.endswith("\n"))
        if lines <= MOST_LINES and len(text) <= MOST_CHARACTERS:
            return text
        size = f"{lines:,} pasted lines" if lines > MOST_LINES else f"{len(text):,} pasted characters"
        number, words = 1, f"[{size}]"
        while self._texts.get(words, text) != text:
            number += 1
            words = f"[{size}, {number}]"
        self._texts[words] = text
        return words

    def expand(self, line: str) -> str:
        """Return the line with the pasted texts."""
        return self._replaced(line, "", "")

    def marked(self, line: str) -> str:
        """Return the line with the pasted texts between marks, for the history file."""
        return self._replaced(line, _BEGIN, _END)

    def unmarked(self, stored: str) -> str:
        """Return a line of the history file with its pasted texts collapsed."""
        return _MARKED.sub(lambda found: self.collapse(found[1]), stored)

    def at_end(self, line: str) -> str:
        """Return the words at the end of the line that stand for a paste, or ""."""
        return next((words for words in self._texts if line.endswith(words)), "")

    def _replaced(self, line: str, before: str, after: str) -> str:
        if not self._texts:
            return line
        pattern = "|".join(map(re.escape, self._texts))
        return re.sub(pattern, lambda found: f"{before}{self._texts[found[0]]}{after}", line)


class PasteHistory(FileHistory):
    """The typed lines in a file, with the whole text of their pastes; recalled lines show them collapsed."""

    def __init__(self, file: Path, pastes: Pastes) -> None:
        self._pastes = pastes
        super().__init__(str(file))

    def load_history_strings(self) -> Iterable[str]:
        """Yield the stored lines, the newest first."""
        return self._collapsed()

    def _collapsed(self) -> Iterator[str]:
        for stored in super().load_history_strings():
            yield self._pastes.unmarked(stored)

    def store_string(self, string: str) -> None:
        """Store a line."""
        super().store_string(self._pastes.marked(string))
