"""What the system prompt says of sub-agents: when to send one out, when not, and who there is."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from outrider.prompts import prompt
from outrider.providers.base import Provider
from outrider.runtime.agent import Agent
from outrider.subagents.models import described
from outrider.subagents.profile import Profile
from outrider.tools.tool import make_tools

_FOR_TOOLS = re.compile(r"\[([\w|]+)\] (.*)")
"""A line for agents that have one of these tools; `{tools}` stands for those that they have."""
_PROFILE = re.compile(r"\{(\w+)\}")


def guidance(profiles: Sequence[Profile], agent: Agent) -> str:
    """The guidance for one agent. It names only tools that the agent has, and profiles that can be sent out."""
    tools = [tool.name for tool in make_tools(agent.tools)]
    lines = _for_tools(prompt("task").splitlines(), tools)
    names = {profile.name for profile in profiles}
    said = (_PROFILE.sub(lambda found: f" ({found[1]})" if found[1] in names else "", line) for line in lines)
    return "\n".join([*said, "", *_listed(profiles, agent.provider)])


def _for_tools(lines: Iterable[str], tools: Collection[str]) -> Iterator[str]:
    for line in lines:
        condition = _FOR_TOOLS.fullmatch(line)
        if not condition:
            yield line
        elif here := [name for name in condition[1].split("|") if name in tools]:
            yield condition[2].replace("{tools}", " or ".join(here))


def _listed(profiles: Iterable[Profile], sender: Provider) -> Iterator[str]:
    for profile in profiles:
        model = described(profile.model, sender, is_foreign=profile.is_foreign)
        yield f"- {profile.name}: {' '.join(profile.description.split())} Model: {model}."
