"""The system prompt's section on sub-agents: when to start one, when not to, and the list of profiles."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from outrider.prompts import prompt
from outrider.providers.base import Provider
from outrider.runtime.agent import Agent
from outrider.subagents.models import describe_model
from outrider.subagents.profile import Profile
from outrider.tools.tool import make_tools

_FOR_TOOLS = r"\[([\w|]+)\] (.*)"
"""A line for agents that have one of these tools; `{tools}` is replaced by the ones that they have."""
_PROFILE = r"\{(\w+)\}"


def guidance(profiles: Sequence[Profile], agent: Agent) -> str:
    """Return the section for one agent. It names only the agent's own tools and the given profiles."""
    tools = [tool.name for tool in make_tools(agent.tools)]
    lines = _for_tools(prompt("task").splitlines(), tools)
    names = {profile.name for profile in profiles}
    filled = (re.sub(_PROFILE, lambda found: f" ({found[1]})" if found[1] in names else "", line) for line in lines)
    return "\n".join([*filled, "", *_profile_lines(profiles, agent.provider)])


def _for_tools(lines: Iterable[str], tools: Collection[str]) -> Iterator[str]:
    for line in lines:
        condition = re.fullmatch(_FOR_TOOLS, line)
        if not condition:
            yield line
        elif present := [name for name in condition[1].split("|") if name in tools]:
            yield condition[2].replace("{tools}", " or ".join(present))


def _profile_lines(profiles: Iterable[Profile], parent: Provider) -> Iterator[str]:
    for profile in profiles:
        model = describe_model(profile.model, parent, from_project=profile.from_project)
        yield f"- {profile.name}: {' '.join(profile.description.split())} Model: {model}."
