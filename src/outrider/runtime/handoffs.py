"""Handoffs: an agent gives the conversation to another one, whose prompt, tools, model and limits then hold."""

from __future__ import annotations

from typing import Any

from outrider.errors import ToolDefinitionError
from outrider.runtime.agent_spec import AgentSpec
from outrider.runtime.deps import is_subtype
from outrider.tools.result import ToolResult
from outrider.tools.tool import Tool, make_tool

TOOL = "handoff"


def handoff_tool(agent: AgentSpec[Any]) -> Tool:
    """Return the tool by which the model hands over to one of the agent's handoffs."""
    names = [each if isinstance(each, str) else each.name for each in agent.handoffs]
    known = [f"- {each.name}: {each.description}" for each in agent.handoffs if not isinstance(each, str)]
    about = "Hand the conversation over to a colleague, who sees all of it and goes on with the user's request."

    async def handoff(to: str) -> ToolResult:
        return ToolResult(f"The conversation is handed over to {to}. You are {to} now: go on with it.", handoff=to)

    schema = {
        "type": "object",
        "properties": {"to": {"type": "string", "enum": names, "description": "Who goes on."}},
        "required": ["to"],
        "additionalProperties": False,
    }
    description = "\n".join([about, *known])
    return make_tool(handoff, name=TOOL, description=description, effect="read", schema=schema, built_in=True)


def team_of(agent: AgentSpec[Any], *, is_whole: bool = False) -> dict[str, AgentSpec[Any]]:
    """Return the agents that a conversation which begins with this one can reach, by name.

    Raises ValueError if two have the same name, TypeError if one takes other deps, and ToolDefinitionError if one has a
    tool with the name of the one that hands over. `is_whole`: a name that no agent
    has raises ValueError, and a model that cannot be used raises its error.
    """
    team: dict[str, AgentSpec[Any]] = {}
    waiting: list[AgentSpec[Any] | str] = [agent]
    names: set[str] = set()
    while waiting:
        each = waiting.pop(0)
        if isinstance(each, str):
            names.add(each)
        elif team.setdefault(each.name, each) is not each:
            raise ValueError(f"two agents are called {each.name!r}; give each a name of its own, as in Agent(name=…)")
        elif each.deps_type is not None and not is_subtype(agent.deps_type, each.deps_type):
            raise TypeError(f"the deps_type of {each.name} does not fit that of {agent.name}, which hands over to it")
        elif each.handoffs and any(tool.name == TOOL for tool in each.tools):
            raise ToolDefinitionError(f"a tool of {each.name} is called {TOOL}, as the one that hands over; rename it")
        else:
            waiting += [other for other in each.handoffs if other is not team.get(getattr(other, "name", ""))]
    if is_whole:
        if unknown := names - team.keys():
            raise ValueError(f"no agent is called {min(unknown)!r}; the agents are {', '.join(team)}")
        for each in team.values():
            each.provider  # noqa: B018 - raises for an unknown model now, not in the middle of a run
    return team
