"""Two tools in place of very many: one finds tools by words, the other calls one.

The pair stays the same whatever the servers offer, so that the prompt cache of a conversation survives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from outrider.errors import ValidationError
from outrider.mcp.ranking import ToolIndex
from outrider.prompts import prompt
from outrider.text import counted
from outrider.tools.context import ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.tool import Tool, make_tool

SEARCH = "search_tools"
CALL = "call_tool"
FOUND_AT_MOST = 20
_FOUND_BY_DEFAULT = 5
_RESULT_CHARACTERS = 20_000
_LONGEST_DESCRIPTION = 600


class DeferredTools:
    """The pair of tools over a list of others. `current` returns the list as it is now."""

    def __init__(self, current: Callable[[], Sequence[Tool]]) -> None:
        self._current = current
        self._index = ToolIndex(())
        self.tools: tuple[Tool, Tool] = (
            make_tool(self._search, name=SEARCH, description=prompt("search_tools_tool"), effect="read", built_in=True),
            make_tool(
                self._call, name=CALL, description=prompt("call_tool_tool"), prepare=_decoded_arguments, built_in=True
            ),
        )

    def resolve(self, arguments: dict[str, Any]) -> tuple[Tool, dict[str, Any]] | None:
        """Return the tool and arguments that a call of `call_tool` stands for, for a person to judge; None if none."""
        given = _decoded_arguments(arguments)
        name, inner = given.get("name"), given.get("arguments", {})
        tool = self.index().get(name) if isinstance(name, str) else None
        return (tool, inner) if tool and isinstance(inner, dict) else None

    def index(self) -> ToolIndex:
        current = tuple(self._current())
        if current != self._index.tools:
            self._index = ToolIndex(current)
        return self._index

    def _search(self, query: str, limit: int = _FOUND_BY_DEFAULT) -> ToolResult:
        index = self.index()
        found = index.search(query, max(1, min(limit, FOUND_AT_MOST)))
        if not found:
            total = counted(len(index.tools), "tool")
            return ToolResult(f"No tool matches these words, of {total}. Try other words, or fewer.")
        return ToolResult(_listing(found))

    async def _call(self, name: str, context: ToolContext[Any], arguments: dict[str, Any] | None = None) -> ToolResult:
        tool = self.index().get(name)
        if tool is None:
            near = ", ".join(each.name for each in self.index().search(name, 3))
            hint = f" Did you mean {near}?" if near else f" Find one with {SEARCH}."
            return ToolResult(f"There is no tool named {name!r}.{hint}", is_error=True)
        try:
            return await tool.invoke(arguments or {}, context)
        except ValidationError as error:
            faults = "\n".join(f"- {violation}" for violation in error.violations)
            return ToolResult(
                f"The arguments of {name} are not valid, so it was not run:\n{faults}\n\n{_listing([tool])}",
                is_error=True,
            )


def _decoded_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with inner ones that a model wrote as a string of JSON decoded."""
    inner = arguments.get("arguments")
    if isinstance(inner, str):
        with suppress(msgspec.DecodeError, RecursionError):
            return {**arguments, "arguments": msgspec.json.decode(inner or "{}")}
    return arguments


def _listing(tools: Sequence[Tool]) -> str:
    """Return the descriptions and schemas of tools, as many as fit."""
    parts: list[str] = []
    for number, tool in enumerate(tools):
        description = tool.description
        if len(description) > _LONGEST_DESCRIPTION:
            description = f"{description[:_LONGEST_DESCRIPTION]}…"
        part = f"## {tool.name}\n{description}\nArguments: {msgspec.json.encode(tool.parameters).decode()}"
        if parts and sum(map(len, parts)) + len(part) > _RESULT_CHARACTERS:
            rest = ", ".join(each.name for each in tools[number:])
            parts.append(f"Not shown, because their schemas are long: {rest}")
            break
        parts.append(part)
    return "\n\n".join(parts)
