"""Calls of a reply that do not count, because of the others: their results say so, and nothing runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from outrider.conversation.messages import ToolUseBlock
from outrider.runtime.handoffs import TOOL as HANDOFF
from outrider.tools.result import ToolResult
from outrider.tools.tool import Tool, make_tool

_ONE_ONLY = "This handoff does not count: a reply can hand the conversation over once, and its first handoff counts."
_TOO_EARLY = (
    "This call does not count: it was made without the results of the other calls. Read them, then call {name} again."
)


def refused_calls(uses: Sequence[ToolUseBlock], tools: Mapping[str, Tool], *, is_last: bool) -> dict[str, Tool]:
    """Return what runs in place of each call that does not count, by call id.

    Of handoffs only the first counts. A call that needs the results of those beside it is made again once they are
    there, unless this is the last turn.
    """
    if len(uses) < 2:
        return {}
    refused: dict[str, Tool] = {}
    if (own := tools.get(HANDOFF)) and own.built_in:
        handoffs = [use.id for use in uses if use.name == HANDOFF]
        refused |= dict.fromkeys(handoffs[1:], _refusing(HANDOFF, _ONE_ONLY))
    called = [tools[use.name] for use in uses if use.name in tools]
    if not is_last and any(map(_looks_up, called)):
        early = {
            tool.name: _refusing(tool.name, _TOO_EARLY.format(name=tool.name)) for tool in called if tool.needs_results
        }
        refused |= {use.id: early[use.name] for use in uses if use.name in early}
    return refused


def _looks_up(tool: Tool) -> bool:
    return tool.effect == "read" and not tool.needs_results and tool.name != HANDOFF


def _refusing(name: str, text: str) -> Tool:
    async def refuse(**arguments: Any) -> ToolResult:
        return ToolResult(text, is_error=True)

    return make_tool(refuse, name=name, description="", effect="read", schema={"type": "object"}, built_in=True)
