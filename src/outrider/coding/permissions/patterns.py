"""Path patterns as in a .gitignore: `*` and `?` match within a name, `**` across folders, `{a,b}` either one."""

from __future__ import annotations

import functools
import itertools
import os.path
import re

from outrider.coding.wildcards import Wildcards

MAX_ALTERNATIVES = 256
"""The most alternatives that the braces of a pattern may have."""

WILD = re.compile(r"[*?\[\]{}\\]")


class TooManyAlternativesError(ValueError):
    """The braces of a pattern have too many alternatives."""


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
    choices = "|".join(_absolute(each, folder, wide) for each in alternatives(pattern))
    return re.compile(f"(?:{choices})" + ("(?:/.*)?" if wide else ""), re.DOTALL | (re.IGNORECASE if wide else 0))


def _absolute(pattern: str, folder: str, wide: bool) -> str:
    base, pattern = _based(pattern, folder, wide)
    return re.escape(base) + "/" + to_regex(pattern)


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


_WILDCARDS = Wildcards({r"/\*\*\Z": "(?:/.*)?", r"\*\*/": "(?:[^/]+/)*", r"\*\*(?!\*)": ".*"})


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
