"""Shorten JSON to a limit of characters, and read an object while its text arrives."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NoReturn

import msgspec

MARK = "…"
ITEM, FIELD = 200, 24
"""The characters that each list item, or object field, keeps before others are left out.

A few readable items are worth more than many unreadable ones; for an object, the fields matter most.
"""


_DEEPEST_VALUE = 200
_FLAT = frozenset((str, int, float, bool, type(None)))
_NESTED = (dict, list, tuple)
_OF_NUMBERS = "0123456789+-.eE"


def too_deep(value: Any, levels: int = _DEEPEST_VALUE) -> bool:
    """Return whether a dict or list is nested too deeply for a recursive function.

    >>> too_deep([[[]]], 1), too_deep([[[]]], 2)
    (True, False)
    """
    for each in value.values() if isinstance(value, dict) else value:
        if type(each) not in _FLAT and isinstance(each, _NESTED) and (levels == 0 or too_deep(each, levels - 1)):
            return True
    return False


def shorten_json(text: str, limit: int, note: str) -> str:
    """Return short JSON unchanged; for longer JSON, return an object with a note and the shortened data.

    The limit includes the note; it is exceeded only if it is below the note's length. The note is a format string that
    may use `{total}`, in characters. Raise ValueError if the text is not JSON.

    >>> shorten_json('["a","b"]', 9, "")
    '["a","b"]'
    >>> shorten_json('{"name":"Ada","notes":"' + "x" * 500 + '"}', 100, "{total} in all")
    '{"shortened":"525 in all","data":{"name":"Ada","notes":"xxxxxxx … [491 characters left out] … xx"}}'
    """
    if len(text) <= limit:
        return text
    value = json.loads(text, parse_constant=_refuse)
    compact = _json(value)
    if len(compact) <= limit:
        return compact
    message = note.format(total=f"{len(text):,}")
    overhead = len(_json({"shortened": message, "data": ""})) - len('""')
    return _json({"shortened": message, "data": _fit(value, limit - overhead)})


def indent_json(text: str) -> str:
    """Return JSON with line breaks and indentation, for readers that work by lines. Other text is unchanged.

    >>> indent_json('{"a":[1]}').splitlines()
    ['{', '  "a": [', '    1', '  ]', '}']
    """
    try:
        return msgspec.json.format(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def _fit(value: Any, room: int) -> Any:
    """Shorten a value so that its JSON fits into the room. Return a mark if nothing of it fits."""
    if len(_json(value)) <= room:
        return value
    if isinstance(value, str):
        return _cut(value, room)
    if isinstance(value, list):
        return _list(value, room)
    return _object(value, room) if isinstance(value, dict) else MARK


def _cut(text: str, room: int) -> str:
    """Return the head and tail of a string. Search for the length, because some characters are escaped in JSON."""
    fits, too_many = -1, min(len(text), max(room, 0)) + 1
    while too_many - fits > 1:
        kept = (fits + too_many) // 2
        if len(_json(_head_and_tail(text, kept))) <= room:
            fits = kept
        else:
            too_many = kept
    return MARK if fits < 0 else _head_and_tail(text, fits)


def _head_and_tail(text: str, kept: int) -> str:
    tail = kept // 4  # the beginning usually says more than the end
    ending = text[len(text) - tail :] if tail else ""
    return f"{text[: kept - tail]} {MARK} [{len(text) - kept:,} characters left out] {MARK} {ending}"


def _list(items: list[Any], room: int) -> Any:
    mark = f"{MARK} [{len(items):,} items, not all shown] {MARK}"
    parts = _Parts([""] * len(items), items, room, len(_json(mark)), ITEM)
    if not parts.count:
        parts = _Parts([""] * len(items), items, room, len(_json(mark)), FIELD)
    if parts.count is None:
        return MARK
    shown = parts.shown
    return shown if parts.is_complete else [*shown[: parts.head], mark, *shown[parts.head :]]


def _object(fields: dict[str, Any], room: int) -> Any:
    key, mark = MARK, f"{len(fields):,} fields, not all shown"
    while key in fields:
        key += MARK
    names = list(fields)
    parts = _Parts(list(map(_json, names)), list(fields.values()), room, len(_json({key: mark})) - 2, FIELD)
    if parts.count is None:
        return MARK
    pairs = list(zip(parts.chosen(names), parts.shown, strict=True))
    return dict(pairs if parts.is_complete else [*pairs[: parts.head], (key, mark), *pairs[parts.head :]])


class _Parts:
    """The parts of a list or an object that fit: all of them, shortened, or the first and the last ones."""

    def __init__(self, names: Sequence[str], values: Sequence[Any], room: int, mark: int, smallest: int) -> None:
        self._values = values
        self._sizes = [len(_json(value)) for value in values]
        self._fixed = [len(name) + bool(name) + 1 for name in names]  # the name, its colon, a comma
        inside = room - len("[]")
        self.count = self._most(inside, mark + 1, smallest)
        """The number of kept parts; None if not even the mark fits."""
        self._room = inside - (0 if self.is_complete else mark + 1)

    @property
    def is_complete(self) -> bool:
        """Whether no part is left out."""
        return self.count == len(self._values)

    @property
    def head(self) -> int:
        """The number of kept parts before the gap."""
        count = self.count or 0
        return count - count // 4

    @property
    def shown(self) -> list[Any]:
        """The kept parts, each shortened to its share. Short parts leave their room to the others."""
        sizes = self.chosen(self._sizes)
        share = _share(sizes, self._room - sum(self.chosen(self._fixed)))
        kept = zip(self.chosen(self._values), sizes, strict=True)
        return [value if size <= share else _fit(value, share) for value, size in kept]

    def chosen(self, items: Sequence[Any]) -> list[Any]:
        """Return the first and the last items that are kept."""
        tail = (self.count or 0) // 4
        return [*items[: self.head], *(items[-tail:] if tail else ())]

    def _most(self, room: int, mark: int, smallest: int) -> int | None:
        least = [fixed + min(size, smallest) for fixed, size in zip(self._fixed, self._sizes, strict=True)]
        before = [0, *accumulate(least)]
        total, number = before[-1], len(least)
        if total <= room:
            return number
        fits = [
            count
            for count in range(number)
            if before[count - count // 4] + total - before[number - count // 4] + mark <= room
        ]
        return max(fits, default=None)


def _share(sizes: Sequence[int], room: int) -> int:
    """Return the largest size for each part with which all of them fit into the room.

    >>> _share([2, 100, 40], 92)
    50
    """
    left = len(sizes)
    for size in sorted(sizes):
        if size * left > room:
            return room // left
        room, left = room - size, left - 1
    return max(sizes, default=0)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


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
