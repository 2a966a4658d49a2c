"""Path patterns of rules, secrets and settings: `*` and `?` match within a name, `**` across folders, `{a,b}` either.

`coding/wildcards.py` says how they differ from those of Glob and of ignore files.
"""

from __future__ import annotations

import functools
import os.path
import re

from outrider.coding.wildcards import ANYTHING, FOLDERS, Wildcards, alternatives

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


_WILDCARDS = Wildcards({r"/\*\*\Z": "(?:/.*)?", r"\*\*/": FOLDERS, r"\*\*(?!\*)": ANYTHING})
