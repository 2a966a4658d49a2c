"""Deferred tools, which an API searches itself: their groups, and tools that a history names but no longer has."""

from __future__ import annotations

from collections.abc import Iterable

from outrider.providers.base import ToolSpec

SHOWN_NAME = "tool_search"
"""The name under which people and other models see the search."""
GONE = "This tool is not available at the moment."
_NAMES_LENGTH = 400


def by_group(tools: Iterable[ToolSpec]) -> dict[str, list[ToolSpec]]:
    """Return the deferred tools by their group."""
    groups: dict[str, list[ToolSpec]] = {}
    for tool in tools:
        if tool.deferred:
            groups.setdefault(tool.deferred, []).append(tool)
    return groups


def group_description(group: str, tools: Iterable[ToolSpec]) -> str:
    """Return what the model sees of a group before it searches: the names of its tools, as many as fit.

    >>> group_description("mcp__time", [ToolSpec("mcp__time__now", "", {}), ToolSpec("mcp__time__zones", "", {})])
    '2 tools: now, zones'
    """
    names = [tool.name.removeprefix(group).strip("_") for tool in tools]
    shown, length = 0, 0
    for name in names:
        length += len(name) + 2
        if length > _NAMES_LENGTH:
            break
        shown += 1
    more = [f"{len(names) - shown} more"] if shown < len(names) else []
    return f"{len(names)} tools: {', '.join([*names[:shown], *more])}"
