"""Reasoning in a Chat Completions stream: inside the text, or as OpenRouter's `reasoning_details`."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

OPEN, CLOSE = "<think>", "</think>"
_GROWING = ("text", "summary", "data")  # fields that arrive in pieces
Piece: TypeAlias = tuple[Literal["thinking", "text"], str]


class InlineThinking:
    """Separates the thinking between <think> and </think> at the beginning of a reply from the text after it.

    The stream may split them anywhere. Tags later in the text are only text.
    """

    def __init__(self) -> None:
        self.before = ""  # white space before the thinking
        self.after = ""  # white space between the thinking and the text
        self.found = False  # whether the reply began with thinking
        self._held = ""  # text that may be part of a tag
        self._phase: Literal["start", "thinking", "gap", "text"] = "start"

    @property
    def passes(self) -> bool:
        return self._phase == "text"

    @property
    def holds(self) -> bool:
        return bool(self._held)

    def feed(self, text: str) -> list[Piece]:
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


class ReasoningDetails:
    """Joins the pieces of OpenRouter's reasoning, of any vendor, to the entries that the next request must repeat."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def take(self, pieces: Any) -> str:
        """Read the entries of a chunk. Return their visible text."""
        seen = ""
        for piece in pieces if isinstance(pieces, list) else ():
            if isinstance(piece, dict):
                self._add(piece)
                seen += next((value for name in _GROWING[:2] if isinstance(value := piece.get(name), str)), "")
        return seen

    def _add(self, piece: dict[str, Any]) -> None:
        last = self.entries[-1] if self.entries else None
        if last is None or not _continues(piece, last):
            self.entries.append(dict(piece))
            return
        for name, value in piece.items():
            if name in _GROWING and isinstance(value, str) and isinstance(last.get(name), str):
                last[name] += value
            elif value is not None:
                last[name] = value


def _continues(piece: dict[str, Any], last: dict[str, Any]) -> bool:
    """Return whether a piece belongs to the last entry. Encrypted entries come whole, each with an id of its own."""
    same = all(piece.get(name) == last.get(name) for name in ("type", "index"))
    return same and (piece.get("id") in (None, last.get("id")) or last.get("id") is None)
