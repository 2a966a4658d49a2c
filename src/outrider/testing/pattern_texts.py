"""Short texts that match a regular expression."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

_CLASSES = {"category_digit": "0", "category_space": " ", "category_word": "a"}
_OTHER = "!a0 ~A_"
"""Characters to try where a set of characters is negated."""


def texts_matching(pattern: str) -> Iterator[str]:
    """Yield texts that probably match, the shortest first. Look-arounds are ignored, so that the caller must check."""
    from re import _parser  # type: ignore[attr-defined]  # as the re module reads it

    try:
        parsed = list(_parser.parse(pattern))
    except (re.error, RecursionError, OverflowError):
        return
    for extra in (0, 1, 2, 3, 5, 8, 13, 21, 34):
        for choice in range(3):
            yield "".join(_texts(parsed, extra, choice))


def _texts(parsed: Iterable[tuple[Any, Any]], extra: int, choice: int) -> Iterator[str]:
    """Yield the parts of one text: repeats are `extra` longer than they must be, branches are taken by `choice`."""
    for operation, argument in parsed:
        match str(operation).lower():
            case "literal":
                yield chr(argument)
            case "any" | "not_literal":
                yield next(each for each in _OTHER if ord(each) != argument)
            case "in":
                yield _member(argument, choice)
            case "max_repeat" | "min_repeat" | "possessive_repeat":
                least, most, repeated = argument
                for _ in range(min(least + extra, int(most))):
                    yield from _texts(repeated, extra, choice)
            case "subpattern":
                yield from _texts(argument[-1], extra, choice)
            case "branch":
                branches = argument[1]
                yield from _texts(branches[choice % len(branches)], extra, choice)


def _member(members: list[tuple[Any, Any]], choice: int) -> str:
    """Return a character of a set such as `[a-z]`."""
    kinds = [(str(kind).lower(), value) for kind, value in members]
    if kinds[0][0] == "negate":
        return _OTHER[choice]
    kind, value = kinds[choice % len(kinds)]
    if kind == "range":
        return chr(value[0])
    return chr(value) if kind == "literal" else _CLASSES.get(str(value).lower(), _OTHER[choice])
