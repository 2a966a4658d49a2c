"""Patterns for paths: `*` within a name, `**` across folders, `?`, `[a-z]` and `{a,b}`."""

from __future__ import annotations

import re
from collections.abc import Callable

from outrider.coding.toolbox.refusals import RefusalError

MAGIC = frozenset("*?[{\\")
LONGEST = 2000
MOST_ALTERNATIVES = 1000
MOST_GLOBSTARS = 4
"""Each `**` may end anywhere, and all combinations of ends are tried on every path."""


def matcher(pattern: str) -> Callable[[str], bool]:
    """Says of a relative path whether the pattern matches the whole of it, hidden names included. Raises RefusalError.

    >>> matches = matcher("src/**/*.{py,pyi}")
    >>> matches("src/a/b.py"), matches("src/b.pyi"), matches("b.py")
    (True, True, False)
    """
    fullmatch = re.compile("|".join(f"(?:{expression})" for expression in _translated(pattern))).fullmatch
    return lambda path: fullmatch(path) is not None


def _translated(pattern: str) -> list[str]:
    from wcmatch import glob

    pattern = re.sub(r"(?<![^/])\*\*(/\*\*)+(?![^/])", "**", pattern)  # `**/**` says no more than `**`
    if len(pattern) > LONGEST:
        raise RefusalError(f"The pattern has {len(pattern):,} characters; the limit is {LONGEST:,}.")
    if pattern.split("/").count("**") > MOST_GLOBSTARS:
        raise RefusalError(f"The pattern has more than {MOST_GLOBSTARS} times `**`.")
    try:
        expressions, _ = glob.translate(
            pattern, flags=glob.GLOBSTAR | glob.BRACE | glob.DOTGLOB | glob.CASE, limit=MOST_ALTERNATIVES
        )
        for each in expressions:
            re.compile(each)
    except Exception as error:  # noqa: BLE001 - the library has exceptions of its own, and re others
        raise RefusalError(f"The pattern cannot be used: {error}.") from None
    return [str(each) for each in expressions]


def split(pattern: str) -> tuple[str, str]:
    """The folder in which every match must be, as far as it is written out, and the pattern for the rest.

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
