"""Thinking that a model writes into its text, between <think> and </think> at the beginning of a reply."""

from __future__ import annotations

from typing import Literal, TypeAlias

OPEN, CLOSE = "<think>", "</think>"
Piece: TypeAlias = tuple[Literal["thinking", "text"], str]


class InlineThinking:
    """Separates the thinking from the text, however the stream splits them. Tags later in the text are only text."""

    def __init__(self) -> None:
        self.before = ""
        """White space before the thinking."""
        self.after = ""
        """White space between the thinking and the text."""
        self.found = False
        """Whether the reply began with thinking."""
        self._held = ""
        """Text that may be part of a tag."""
        self._phase: Literal["start", "thinking", "gap", "text"] = "start"

    @property
    def passes(self) -> bool:
        """Whether all that comes is text."""
        return self._phase == "text"

    @property
    def holds(self) -> bool:
        """Whether some text is held back."""
        return bool(self._held)

    def feed(self, text: str) -> list[Piece]:
        """Return the pieces that the text completes."""
        found: list[Piece] = []
        self._held += text
        if self._phase == "start":
            self._start()
        if self._phase == "thinking":
            self._think(found)
        if self._phase == "gap":
            self._skip_gap()
        if self._phase == "text":
            self._release("text", found)
        return found

    def finish(self) -> list[Piece]:
        """Return what is held back: the stream has ended."""
        found: list[Piece] = []
        self._release("thinking" if self._phase == "thinking" else "text", found)
        return found

    def _start(self) -> None:
        content = self._held.lstrip()
        if content.startswith(OPEN):
            self.before, self.found = self._held[: len(self._held) - len(content)], True
            self._held, self._phase = content[len(OPEN) :], "thinking"
        elif not OPEN.startswith(content):
            self._phase = "text"

    def _think(self, found: list[Piece]) -> None:
        thinking, closed, rest = self._held.partition(CLOSE)
        if not closed:
            size = next(size for size in range(len(CLOSE) - 1, -1, -1) if thinking.endswith(CLOSE[:size]))
            thinking, rest = thinking[: len(thinking) - size], CLOSE[:size]
        self._held = rest
        if thinking:
            found.append(("thinking", thinking))
        if closed:
            self._phase = "gap"

    def _skip_gap(self) -> None:
        content = self._held.lstrip()
        self.after += self._held[: len(self._held) - len(content)]
        self._held = content
        if content:
            self._phase = "text"

    def _release(self, kind: Literal["thinking", "text"], found: list[Piece]) -> None:
        if self._held:
            found.append((kind, self._held))
        self._held = ""
