"""Reading a JSON object while its text arrives, as far as it has arrived."""

from __future__ import annotations

from typing import Any

_OF_NUMBERS = "0123456789+-.eE"


def partial_object(text: str, *, unfinished: bool = True) -> dict[str, Any]:
    """Return what can be read of an object whose text is not complete, with or without an unfinished string.

    A number that may go on is left out. What is not the beginning of a JSON object gives {}.

    >>> partial_object('{"path": "src/ma')
    {'path': 'src/ma'}
    >>> partial_object('{"lines": [1, 20, 3')
    {'lines': [1, 20]}
    """
    mode: Any = "trailing-strings" if unfinished else "on"
    value = _parsed(_without_last_number(text), mode)
    return value if isinstance(value, dict) else {}


def _without_last_number(text: str) -> str:
    # A string cannot have a line break, so with one the text is wrong if it ends in a string.
    if text[-1:] not in _OF_NUMBERS or _parsed(text + "\n", "trailing-strings") is None:
        return text
    return text.rstrip(_OF_NUMBERS)


def _parsed(text: str, mode: Any) -> Any:
    """Return the value of an incomplete text; None if it is wrong, or null."""
    import jiter  # only programs that show data while it arrives need it

    try:
        return jiter.from_json(text.encode("utf-8", "replace"), partial_mode=mode, allow_inf_nan=False)
    except ValueError:
        return None


class GrowingObject:
    """Collects chunks of a JSON object, and parses them from time to time. The total cost of parsing stays linear."""

    def __init__(self, *, unfinished: bool = True, step: int = 16, updates: int = 16) -> None:
        """A text is parsed again after `step` characters; a long one when it has grown by one part in `updates`."""
        self._unfinished, self._step, self._updates = unfinished, step, updates
        self._chunks: list[str] = []
        self._length = 0
        self._next_parse = 1

    def add(self, chunk: str) -> dict[str, Any] | None:
        """Add a chunk. Return what can be read so far, or None if it was not parsed or is nothing yet."""
        self._chunks.append(chunk)
        self._length += len(chunk)
        if self._length < self._next_parse:
            return None
        self._next_parse = self._length + max(self._step, self._length // self._updates)
        self._chunks = ["".join(self._chunks)]
        return partial_object(self._chunks[0], unfinished=self._unfinished) or None
