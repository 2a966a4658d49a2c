"""OpenRouter's `reasoning_details`: the reasoning of any vendor, in pieces, to be sent back as they came."""

from __future__ import annotations

from typing import Any

_GROWING = ("text", "summary", "data")
"""Fields that arrive in pieces."""


class ReasoningDetails:
    """Joins the pieces of a stream to the entries that the next request must repeat."""

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
