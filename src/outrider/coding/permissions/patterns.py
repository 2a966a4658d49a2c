"""Patterns of paths, as in a .gitignore: `*` and `?` stay within a name, `**` passes folders, `{a,b}` is either."""

from __future__ import annotations

import functools
import itertools
import os.path
import re

MANY = 256
"""As many alternatives as a pattern in braces may have."""

WILD = re.compile(r"[*?\[\]{}\\]")


class TooManyError(ValueError):
    """Braces that stand for more alternatives than anybody writes."""


def alternatives(pattern: str) -> list[str]:
    """The patterns that one with braces stands for. Raises TooManyError.

    >>> alternatives("{a,b{1,2}}/*.py")
    ['a/*.py', 'b1/*.py', 'b2/*.py']
    """
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        if len(done) + len(waiting) > MANY:
            raise TooManyError("the pattern stands for too many others")
        text = waiting.pop()
        braces = _braces(text)
        if braces is None:
            done.append(text)
        else:
            start, end, options = braces
            waiting.extend(text[:start] + option + text[end:] for option in reversed(options))
    return list(dict.fromkeys(done))


def escaped(path: str) -> str:
    """The pattern that matches this path alone."""
    return WILD.sub(lambda special: "\\" + special.group(), path)


@functools.lru_cache(maxsize=4096)
def matcher(pattern: str, folder: str, wide: bool) -> re.Pattern[str]:
    """What matches the absolute paths that the pattern means.

    A relative pattern is relative to the folder, and matches at any depth in it if it has no slash; `/…` and `~/…` are
    absolute. A narrow pattern matches just what it says, so that a rule does not allow more than it seems to; a wide
    one also whatever lies beneath, in any case of letters, and without a slash anywhere.
    """
    choices = "|".join(_absolute(each, folder, wide) for each in alternatives(pattern))
    return re.compile(f"(?:{choices})" + ("(?:/.*)?" if wide else ""), re.DOTALL | (re.IGNORECASE if wide else 0))


def _absolute(pattern: str, folder: str, wide: bool) -> str:
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
    return re.escape(base) + "/" + translated(pattern)


def translated(pattern: str) -> str:
    """A pattern without braces as a regular expression. `x/` and `x/**` are the folder and all in it."""
    if pattern.endswith("/"):
        pattern += "**"
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        assert token is not None  # the last alternative matches any character
        parts.append(_expression(token.group()))
        at = token.end()
    return "".join(parts)


_TOKEN = re.compile(r"/\*\*\Z|\*\*/|\*+|\?|\\.|\[[!^]?\]?[^\]/]*\]|.", re.DOTALL)


def _expression(token: str) -> str:
    match token:
        case "/**":
            return "(?:/.*)?"
        case "**/":
            return "(?:[^/]+/)*"
        case "**":
            return ".*"
        case "?":
            return "[^/]"
    if token.startswith("*"):
        return "[^/]*"
    if token.startswith("[") and len(token) > 2:
        inside = token[1:-1].replace("\\", "\\\\").replace("[", "\\[")
        return f"(?![/])[^{inside[1:]}]" if inside[0] in "!^" else f"(?![/])[{inside}]"
    return re.escape(token[1:] if token.startswith("\\") and len(token) > 1 else token)


def _braces(text: str) -> tuple[int, int, list[str]] | None:
    """The first pair of braces with a comma between them: where it stands, and its options."""
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
