"""JSON within a limit of characters: what is too long is shortened, and is JSON still."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NoReturn

import msgspec

MARK = "…"
ITEM, FIELD = 200, 24
"""Characters that each item of a list, and each field of an object, keeps before whole ones are left out.

Fewer items that can be read are worth more than many that cannot; of an object, its fields say most.
"""


def shorten_json(text: str, limit: int, note: str) -> str:
    """Return JSON within the limit as it is; of longer JSON, an object with a note and the data with its parts cut.

    The limit counts the note too, and only a limit below the note's own length is exceeded. The note is a format string
    that may name `{total}`, in characters. Raises ValueError for text that is not JSON.

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
    said = note.format(total=f"{len(text):,}")
    shell = len(_json({"shortened": said, "data": ""})) - len('""')
    return _json({"shortened": said, "data": _within(value, limit - shell)})


def in_lines(text: str) -> str:
    """Return JSON with a line for each of its parts, as those read it who read by lines; other text as it is.

    >>> in_lines('{"a":[1]}').splitlines()
    ['{', '  "a": [', '    1', '  ]', '}']
    """
    try:
        return msgspec.json.format(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def _within(value: Any, room: int) -> Any:
    """The value, cut so that its JSON fits into the room; a mark where nothing of it does."""
    if len(_json(value)) <= room:
        return value
    if isinstance(value, str):
        return _cut(value, room)
    if isinstance(value, list):
        return _list(value, room)
    return _object(value, room) if isinstance(value, dict) else MARK


def _cut(text: str, room: int) -> str:
    """Head and tail of a string, with what was left out between them. Some characters take more than one in JSON."""
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
    """The parts of a list or an object that fit: all of them, cut, or the first and the last."""

    def __init__(self, names: Sequence[str], values: Sequence[Any], room: int, mark: int, smallest: int) -> None:
        self._values = values
        self._sizes = [len(_json(value)) for value in values]
        self._fixed = [len(name) + bool(name) + 1 for name in names]  # the name, its colon, a comma
        inside = room - len("[]")
        self.count = self._most(inside, mark + 1, smallest)
        """How many are kept; None if there is no room even for the mark."""
        self._room = inside - (0 if self.is_complete else mark + 1)

    @property
    def is_complete(self) -> bool:
        """Whether no part is left out."""
        return self.count == len(self._values)

    @property
    def head(self) -> int:
        """How many of those that are kept stand before what is left out."""
        count = self.count or 0
        return count - count // 4

    @property
    def shown(self) -> list[Any]:
        """Those that are kept, each cut to its share: what is short leaves its room to the others."""
        sizes = self.chosen(self._sizes)
        share = _share(sizes, self._room - sum(self.chosen(self._fixed)))
        kept = zip(self.chosen(self._values), sizes, strict=True)
        return [value if size <= share else _within(value, share) for value, size in kept]

    def chosen(self, all_of_them: Sequence[Any]) -> list[Any]:
        """The first and the last."""
        tail = (self.count or 0) // 4
        return [*all_of_them[: self.head], *(all_of_them[-tail:] if tail else ())]

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
    """The most that each may take so that all of them fit into the room.

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
    raise ValueError(f"{constant} is no JSON")
