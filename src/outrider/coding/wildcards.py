"""Wildcards as regular expressions: `*`, `?`, `[a-z]`, `[[:digit:]]` and `\\x` within a name, and `{a,b}`.

There are two languages of path patterns. They differ in what spans folders, and in where a pattern begins:

- `GLOB`, for Glob, Grep and ignore files: `**` is special only as a whole name (`a/**/b`), and `x/**` matches what is
  inside `x`. A pattern of Glob begins at the searched folder. One in a .gitignore without a slash matches names at any
  depth, the last pattern that matches decides, and braces have no meaning (`snapshots/ignoring.py`).
- Rules, secrets and settings (`compile_pattern`, `to_regex`): `**` spans folders anywhere, and `x/**` matches `x` too,
  because a rule about everything in a folder is also about the folder. A pattern begins at the working folder, at `~`
  or at `/`.

Names of models, MCP tools and hosts are no paths; they are compared with `fnmatch`.
"""

from __future__ import annotations

import functools
import itertools
import os.path
import re
from collections.abc import Mapping
from typing import NamedTuple

MAX_ALTERNATIVES = 256
"""The most alternatives that the braces of a pattern may have."""

FOLDERS = "(?:[^/]+/)*"
"""Any number of whole folders."""
ANYTHING = ".*"
_IN_A_NAME = "[^/]*"
_WITHIN_A_NAME = r"[\w.-]+|\*+|\?|\[[!^]?\]?(?:\[:[a-z]+:\]|[^\]/])*\]|\\.|."
_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \\t",
    "digit": "0-9",
    "lower": "a-z",
    "space": "\\s",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}


class TooManyAlternativesError(ValueError):
    """The braces of a pattern have too many alternatives."""


class Wildcards:
    """Translates patterns. `spanning` has the tokens that span folders, as regular expressions, and what they become.

    >>> GLOB.to_regex("**/*.[!c]?")
    '(?:[^/]+/)*[^/]*\\\\.(?!/)[^c][^/]'
    """

    def __init__(self, spanning: Mapping[str, str]) -> None:
        self._meanings = tuple(spanning.values())
        groups = (f"({token})" for token in spanning)
        self._token = re.compile("|".join((*groups, _WITHIN_A_NAME)), re.DOTALL)

    def to_regex(self, pattern: str) -> str:
        """Return the regular expression. Compiling it fails for a range such as `[z-a]`."""
        return _joined([self._meaning(token) for token in self._token.finditer(pattern)])

    def _meaning(self, token: re.Match[str]) -> _Token:
        if token.lastindex:
            return _Token(self._meanings[token.lastindex - 1], spans=True)
        return _within_a_name(token.group())


GLOB = Wildcards({r"(?<![^/])\*{2,}/": FOLDERS, r"(?<![^/])\*{2,}\Z": ANYTHING})
"""The language of Glob, Grep and ignore files."""


class _Token(NamedTuple):
    regex: str
    spans: bool = False
    """Whether it matches a text of any length."""


def _within_a_name(token: str) -> _Token:
    if token.startswith("*"):
        return _Token(_IN_A_NAME, spans=True)
    if token == "?":
        return _Token("[^/]")
    if token.startswith("[") and len(token) > 2:
        inside = re.sub(r"\[:([a-z]+):\]|[\\\[]", _escaped, token[1:-1])
        return _Token(f"(?!/)[^{inside[1:]}]" if inside[0] in "!^" else f"(?!/)[{inside}]")
    return _Token(re.escape(token[1:] if token.startswith("\\") and len(token) > 1 else token))


def _escaped(found: re.Match[str]) -> str:
    if found[1] in _CLASSES:
        return _CLASSES[found[1]]
    return re.sub(r"[\\\[]", r"\\\g<0>", found[0])


def _joined(tokens: list[_Token]) -> str:
    """Return the tokens as one expression. Many wildcards of one kind do not make it slow.

    Between two wildcards of a kind, the first match of what is between them is as good as any later one, because the
    second wildcard can match the rest. So the first is kept (an atomic group), and there is nothing to try again.
    """
    parts: list[str] = []
    at = 0
    while at < len(tokens):
        regex, spans = tokens[at]
        at += 1
        end = _end_of_fixed(tokens, at, regex) if spans else at
        if end > at:
            parts.append(f"(?>{regex}?{_joined(tokens[at:end])})")
            at = end
        else:
            parts.append(regex)
    return "".join(parts)


def _end_of_fixed(tokens: list[_Token], start: int, wildcard: str) -> int:
    """Return where the part after a wildcard ends that the same wildcard follows; `start` if there is none."""
    end = start
    while end < len(tokens) and (not tokens[end].spans or (wildcard == FOLDERS and tokens[end].regex == _IN_A_NAME)):
        if wildcard == _IN_A_NAME and tokens[end].regex == "/":
            return start
        end += 1
    if end == len(tokens) or end == start or tokens[end].regex != wildcard:
        return start
    return end if wildcard != FOLDERS or tokens[end - 1].regex == "/" else start


def alternatives(pattern: str) -> list[str]:
    """Return the patterns that a pattern with braces means. Raises TooManyAlternativesError.

    >>> alternatives("{a,b{1,2}}/*.py")
    ['a/*.py', 'b1/*.py', 'b2/*.py']
    """
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        if len(done) + len(waiting) > MAX_ALTERNATIVES:
            raise TooManyAlternativesError("the pattern has too many alternatives")
        text = waiting.pop()
        braces = _braces(text)
        if braces is None:
            done.append(text)
        else:
            start, end, options = braces
            waiting.extend(text[:start] + option + text[end:] for option in reversed(options))
    return list(dict.fromkeys(done))


def _braces(text: str) -> tuple[int, int, list[str]] | None:
    """Return the start, the end and the options of the first braces with a comma; None if there are none."""
    opened: list[int] = []
    commas: dict[int, list[int]] = {}
    for at, character in enumerate(text):
        if at and text[at - 1] == "\\":
            continue
        if character == "{":
            opened.append(at)
        elif character == "," and opened:
            commas.setdefault(opened[-1], []).append(at)
        elif character == "}" and opened:
            start = opened.pop()
            if start in commas:
                cuts = [start, *commas[start], at]
                return start, at + 1, [text[a + 1 : b] for a, b in itertools.pairwise(cuts)]
    return None


WILD = re.compile(r"[*?\[\]{}\\]")


def escaped(path: str) -> str:
    """Return the pattern that matches only this path."""
    return WILD.sub(lambda special: "\\" + special.group(), path)


@functools.lru_cache(maxsize=4096)
def compile_pattern(pattern: str, folder: str, wide: bool) -> re.Pattern[str]:
    """Return a regular expression that matches the absolute paths of a pattern.

    A relative pattern is relative to the folder, and matches at any depth in it if it has no slash; `/…` and `~/…` are
    absolute. A narrow pattern matches exactly what it says, so that a rule does not allow more than it seems to. A wide
    one also matches everything inside a folder, ignores case, and without a slash matches anywhere on the disk.
    """
    based = (_based(each, folder, wide) for each in alternatives(pattern))
    choices = "|".join(f"{re.escape(base)}/{to_regex(rest)}" for base, rest in based)
    return re.compile(f"(?:{choices})" + ("(?:/.*)?" if wide else ""), re.DOTALL | (re.IGNORECASE if wide else 0))


def absolute(pattern: str, folder: str) -> str:
    """Return a pattern without braces as an absolute one; one without a slash stays, because it matches anywhere.

    >>> absolute("docs/**", "/work"), absolute("*.sql", "/work")
    ('/work/docs/**', '*.sql')
    """
    if "/" not in pattern.rstrip("/"):
        return pattern
    base, pattern = _based(pattern, folder, True)
    return f"{escaped(base)}/{pattern}"


def _based(pattern: str, folder: str, wide: bool) -> tuple[str, str]:
    """Return the folder that a pattern starts from, and the rest of the pattern."""
    base = "" if folder == "/" else folder
    if pattern == "~" or pattern.startswith("~/"):
        base, pattern = os.path.expanduser("~").rstrip("/"), pattern[2:]
    elif pattern.startswith("/"):
        base, pattern = "", pattern[1:]
    elif "/" not in pattern.rstrip("/"):
        base, pattern = ("" if wide else base), f"**/{pattern}"
    while pattern.startswith(("./", "../")):
        if pattern.startswith("../"):
            base = base.rpartition("/")[0]
        pattern = pattern.partition("/")[2]
    return base, pattern


def to_regex(pattern: str) -> str:
    """Convert a pattern without braces. `x/` and `x/**` match the folder and everything in it."""
    if pattern.endswith("/"):
        pattern += "**"
    return _WILDCARDS.to_regex(pattern)


_WILDCARDS = Wildcards({r"/\*\*\Z": "(?:/.*)?", r"\*\*/": FOLDERS, r"\*\*(?!\*)": ANYTHING})
