"""The path patterns of Glob and Grep: `*` within a name, `**` across folders, `?`, `[a-z]` and `{a,b}`.

`coding/wildcards.py` says how they differ from those of rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from outrider.coding.toolbox.tool_errors import ToolCallError
from outrider.coding.wildcards import GLOB, alternatives

MAGIC = frozenset("*?[{\\")
LONGEST = 2000


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that matches whole relative paths, hidden names included. Raises ToolCallError.

    >>> matches = matcher("src/**/*.{py,pyi}")
    >>> matches("src/a/b.py"), matches("src/b.pyi"), matches("b.py")
    (True, True, False)
    """
    if len(pattern) > LONGEST:
        raise ToolCallError(f"The pattern has {len(pattern):,} characters; the limit is {LONGEST:,}.")
    try:
        choices = "|".join(GLOB.to_regex(re.sub("/+", "/", each)) for each in alternatives(pattern))
        fullmatch = re.compile(choices, re.DOTALL).fullmatch
    except (ValueError, re.error) as error:
        raise ToolCallError(f"The pattern cannot be used: {error}.") from None
    return lambda path: fullmatch(path) is not None


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
