"""Short texts that match a regular expression."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

_CHARACTERS = dict.fromkeys("a0 A_-.!~" + string.printable + "\0éЖ中")
"""Characters to try for `.`, a class or an escape, beside those of the pattern itself."""
_TOKEN = re.compile(
    r"""(?P<nothing>\(\?\#[^)]*\)|\(\?[aiLmsux]+\)|\(\?P=\w+\)|\\[AbBZ]|\\[1-9]\d?|[\^$])
    |(?P<look>\(\?<?[=!])
    |(?P<open>\((?:\?(?:P<\w+>|[aiLmsux]*(?:-[imsx]+)?:|>|\(\w+\)))?)
    |(?P<close>\))
    |(?P<or>\|)
    |(?P<repeat>(?:[*+?]|\{(?:\d+(?:,\d*)?|,\d*)\})[?+]?)
    |(?P<one>\[\^?\]?(?:\\.|[^\]\\])*\]|\\x..|\\u.{4}|\\U.{8}|\\0[0-7]{0,2}|\\.|.)""",
    re.VERBOSE | re.DOTALL,
)
_CODE = re.compile(r"\\(?:x(..)|u(.{4})|U(.{8}))")
_MOST = 10_000
"""What stands for a repeat without an end."""


class _Repeat(NamedTuple):
    part: _Part
    least: int
    most: int


class _Group(NamedTuple):
    branches: list[list[_Part]]


_Part: TypeAlias = "str | _Repeat | _Group"
"""The characters of which one matches, or something made of them."""


def texts_matching(pattern: str) -> Iterator[str]:
    """Yield texts that probably match, the shortest first. Look-arounds are ignored, so that the caller must check."""
    try:
        re.compile(pattern)
        parsed = _group(_TOKEN.finditer(pattern), _characters(pattern))
        for extra in (0, 1, 2, 3, 5, 8, 13, 21, 34):
            for choice in range(3):
                yield _text(parsed, extra, choice)
    except (re.error, RecursionError, OverflowError):
        return


def _characters(pattern: str) -> Sequence[str]:
    codes = (chr(int("".join(filter(None, found)), 16)) for found in _CODE.findall(pattern))
    return [*(_CHARACTERS | dict.fromkeys([*codes, *pattern]))]


def _group(tokens: Iterator[re.Match[str]], characters: Sequence[str]) -> _Group:
    """Return what stands before the end of a group, or of the pattern."""
    branches: list[list[_Part]] = [[]]
    for token in tokens:
        text, parts = token[0], branches[-1]
        match token.lastgroup:
            case "close":
                break
            case "or":
                branches.append([])
            case "open":
                parts.append(_group(tokens, characters))
            case "look":
                _group(tokens, characters)
            case "repeat" if parts:
                parts.append(_Repeat(parts.pop(), *_times(text)))
            case "one" if len(text) == 1 and text != ".":
                parts.append(text)
            case "one":
                parts.append("".join(each for each in characters if re.fullmatch(text, each)))
    return _Group(branches)


def _times(text: str) -> tuple[int, int]:
    """Return how often a part may come: of `*`, `+`, `?`, `{2}`, `{2,}`, `{,3}` and `{2,3}`."""
    if text[0] != "{":
        return int(text[0] == "+"), 1 if text[0] == "?" else _MOST
    least, comma, most = text[1 : text.index("}")].partition(",")
    return int(least or 0), int(most or _MOST) if comma else int(least)


def _text(part: _Part, extra: int, choice: int) -> str:
    """Return one text: repeats are `extra` longer than they must be; `choice` takes branches and characters."""
    if isinstance(part, str):
        return part[choice % len(part)] if part else ""
    if isinstance(part, _Repeat):
        return _text(part.part, extra, choice) * min(part.least + extra, part.most)
    branch = part.branches[choice % len(part.branches)]
    return "".join(_text(each, extra, choice) for each in branch)
