"""Regular expressions that are compiled when they are first used.

Python compiles at about 0.2 ms each. A program that starts has hundreds of them in its modules and uses a few.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


def late_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return what `re.compile` returns, with the same methods. The first use raises what is wrong with it."""
    return cast("re.Pattern[AnyStr]", _LatePattern(pattern, flags))


class _LatePattern:
    def __init__(self, pattern: Any, flags: int) -> None:
        self._source = pattern, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._source), name)
        setattr(self, name, found)  # from now on as quick as that of the compiled pattern
        return found
