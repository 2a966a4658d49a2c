"""An agent that can send out others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from outrider.runtime.agent import Agent
from outrider.subagents.models import model_for
from outrider.subagents.profile import Profile, built_in
from outrider.subagents.task import AT_ONCE, RESULT_CHARACTERS, SubagentSetup, Task
from outrider.tools.tool import make_tools


def with_subagents(
    agent: Agent,
    profiles: Sequence[Profile] | None = None,
    *,
    at_once: int = AT_ONCE,
    result_characters: int = RESULT_CHARACTERS,
) -> Agent:
    """The same agent with the Task tool: it sends out sub-agents that have its tools, or fewer, and come back.

    Without profiles they are Explore, Plan, Bash and General, as far as the agent has tools for them. At most `at_once`
    of them work at the same time. The agent gets to read `result_characters` of what each comes back with, or less if
    its limits allow less; the whole is stored.

    >>> team = with_subagents(Agent(model="demo"), [Profile(name="Poet", description="Writes verse.")])
    >>> [tool.name for tool in team.tools], "- Poet: Writes verse." in team.instructions
    (['Task'], True)
    """
    tools = [tool for tool in make_tools(agent.tools) if tool.name != "Task"]
    chosen = profiles if profiles is not None else [each for each in built_in() if each.tools_of(tools)]

    @contextmanager
    def engage(profile: Profile, title: str, tier: str) -> Iterator[SubagentSetup]:
        yield SubagentSetup(
            Agent(
                model=model_for(tier or profile.model, agent.provider, is_foreign=profile.is_foreign),
                system=profile.prompt,
                tools=profile.tools_of(tools),
                limits=profile.limits_within(agent.limits),
                name=profile.name,
            )
        )

    task = Task(chosen, engage, at_once=at_once, result_characters=result_characters)
    return msgspec.structs.replace(agent, tools=[*tools, task.tool])
