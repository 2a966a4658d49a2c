"""Give an agent the Task tool, so that it can start sub-agents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from outrider.errors import ToolDefinitionError
from outrider.runtime.agent import Agent
from outrider.subagents.profile import Profile, built_in, model_for
from outrider.subagents.task import AT_ONCE, RESULT_CHARACTERS, TOOL, Order, SubagentSetup, Task
from outrider.tools.context import DepsT
from outrider.tools.tool import Tool, make_tools

if TYPE_CHECKING:
    from outrider.mcp.session_servers import Mcp


def with_subagents(
    agent: Agent[DepsT],
    profiles: Sequence[Profile] | None = None,
    *,
    at_once: int = AT_ONCE,
    result_characters: int = RESULT_CHARACTERS,
) -> Agent[DepsT]:
    """Return a copy of the agent with the Task tool, which starts sub-agents that have the agent's tools, or fewer.

    The default profiles are Explore, Plan, Bash and General; those without any of the agent's tools are left out. At
    most `at_once` sub-agents run at the same time. The agent reads at most `result_characters` of each result, or fewer
    if its limits say so; the whole result is stored. An agent that has the Task tool already gets a new one.

    Raises ToolDefinitionError if another tool of the agent is called Task, and ValueError for two profiles with the
    same name and for `at_once` below 1.

    >>> team = with_subagents(Agent(model="demo"), [Profile(name="Poet", description="Writes verse.")])
    >>> [tool.name for tool in team.tools], "- Poet: Writes verse." in team.system_prompt
    (['Task'], True)
    """
    if isolated := [each.name for each in profiles or () if each.isolation]:
        raise ValueError(f"the profile {isolated[0]} has an isolation, which only the coding agent provides")
    tools = _without_task(make_tools(agent.tools))
    chosen = profiles if profiles is not None else [each for each in built_in() if each.tools_of(tools)]
    task = Task(chosen, partial(_prepare, tools), at_once=at_once, result_characters=result_characters)
    return msgspec.structs.replace(agent, tools=[*tools, task.tool])


@asynccontextmanager
async def _prepare(tools: Sequence[Tool], order: Order) -> AsyncIterator[SubagentSetup]:
    profile, agent = order.profile, order.sender  # which may be another one than at first: a copy with its Task
    assert agent is not None
    model = model_for(order.tier or profile.model, agent.provider, from_project=profile.from_project)
    yield SubagentSetup(
        Agent(
            model=agent.providers if model is agent.provider else model,
            system=profile.prompt,
            tools=profile.tools_of(tools),
            mcp=_servers_for(profile, agent.mcp),
            hooks=agent.hooks,
            limits=profile.limits_within(agent.limits),
            retry=agent.retry,
            compaction=agent.compaction,
            name=profile.name,
            deps_type=agent.deps_type,
        )
    )


def _without_task(tools: Sequence[Tool]) -> list[Tool]:
    """Return the tools without the Task tool of an earlier call. Another tool with its name is refused."""
    if any(tool.name == TOOL and not tool.built_in for tool in tools):
        raise ToolDefinitionError(
            f"a tool of the agent is called {TOOL}, the name of the tool that starts sub-agents; "
            "choose another with @tool(name=…)"
        )
    return [tool for tool in tools if tool.name != TOOL]


def _servers_for(profile: Profile, mcp: Mcp) -> Mcp:
    """Return the servers of the sub-agent. Those that are only described are the parent's own, as a whole."""
    names = profile.server_tools
    if not mcp or names is None:
        return mcp
    from outrider.mcp.running import RunningServers

    return mcp.only(names) if names and isinstance(mcp, RunningServers) else ()
