"""Path patterns: `*` within a name, `**` across folders, `?`, `[a-z]` and `{a,b}`."""

from __future__ import annotations

import re
from collections.abc import Callable

from outrider.coding.toolbox.tool_errors import ToolCallError

MAGIC = frozenset("*?[{\\")
LONGEST = 2000
MOST_ALTERNATIVES = 1000
MOST_GLOBSTARS = 4
"""Each `**` may end anywhere, and every combination is tried on every path."""


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that matches whole relative paths, hidden names included. Raises ToolCallError.

    >>> matches = matcher("src/**/*.{py,pyi}")
    >>> matches("src/a/b.py"), matches("src/b.pyi"), matches("b.py")
    (True, True, False)
    """
    fullmatch = re.compile("|".join(f"(?:{expression})" for expression in _translated(pattern))).fullmatch
    return lambda path: fullmatch(path) is not None


def _translated(pattern: str) -> list[str]:
    from wcmatch import glob

    pattern = re.sub(r"(?<![^/])\*\*(/\*\*)+(?![^/])", "**", pattern)  # `**/**` means the same as `**`
    if len(pattern) > LONGEST:
        raise ToolCallError(f"The pattern has {len(pattern):,} characters; the limit is {LONGEST:,}.")
    if pattern.split("/").count("**") > MOST_GLOBSTARS:
        raise ToolCallError(f"The pattern has more than {MOST_GLOBSTARS} times `**`.")
    try:
        expressions, _ = glob.translate(
            pattern, flags=glob.GLOBSTAR | glob.BRACE | glob.DOTGLOB | glob.CASE, limit=MOST_ALTERNATIVES
        )
        for each in expressions:
            re.compile(each)
    except Exception as error:  # noqa: BLE001 - wcmatch and re raise different exceptions
        raise ToolCallError(f"The pattern cannot be used: {error}.") from None
    return [str(each) for each in expressions]


def split(pattern: str) -> tuple[str, str]:
    """Split a pattern into the folder that contains every match and the pattern for the rest.

    >>> split("src/web/**/*.ts"), split("*.md"), split("/etc/hosts")
    (('src/web', '**/*.ts'), ('', '*.md'), ('/etc', 'hosts'))
    """
    pattern = re.sub("/+", "/", pattern)
    segments = f"{pattern}**".split("/") if pattern.endswith("/") else pattern.split("/")
    plain = 0
    while plain < len(segments) - 1 and not MAGIC.intersection(segments[plain]):
        plain += 1
    folder = "/".join(segments[:plain])
    return folder or ("/" if plain else ""), "/".join(segments[plain:])
