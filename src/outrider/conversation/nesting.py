"""How deeply JSON values are nested."""

from __future__ import annotations

from typing import Any

_DEEPEST_VALUE = 200
_FLAT = frozenset((str, int, float, bool, type(None)))


def too_deep(value: Any, levels: int = _DEEPEST_VALUE) -> bool:
    """Return whether a dict or list is nested too deeply for a recursive function.

    >>> too_deep([[[]]], 1), too_deep([[[]]], 2)
    (True, False)
    """
    for each in value.values() if isinstance(value, dict) else value:
        if (
            type(each) not in _FLAT
            and isinstance(each, dict | list | tuple)
            and (levels == 0 or too_deep(each, levels - 1))
        ):
            return True
    return False
