"""Profiles of sub-agents: purpose, instructions, tools, model and limits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from outrider.prompts import prompt
from outrider.runtime.limits import FORMER_NAMES, Limits
from outrider.tools.tool import Tool

NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
READ_TOOLS = ("Read", "Glob", "Grep", "WebFetch")


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of sub-agent.

    >>> Profile(name="Reader", description="Reads the files it is given.", tools=["Read"]).tools
    ('Read',)
    """

    name: str
    description: str
    """When to start one, for the model that decides."""
    prompt: str = ""
    """The sub-agent's instructions."""
    tools: Sequence[str] | None = None
    """Which of the parent's tools the sub-agent has, by name; None for all. Never Task."""
    model: str = ""
    """A tier (`fast`, `balanced`, `powerful`) or a model by name; empty for the parent's model."""
    limits: Mapping[str, Any] = {}
    """Fields of `Limits` that differ from the parent's."""
    schemas: bool = True
    """Whether the sub-agent can return data for a JSON Schema."""
    may_raise_limits: bool = True
    """Whether its limits may exceed the parent's. A user's profile may; built-in and project profiles may not."""
    from_project: bool = False
    """Whether the profile comes from a project. It then cannot choose another vendor's model."""

    def __post_init__(self) -> None:
        if not re.fullmatch(NAME, self.name):
            raise ValueError(f"{self.name!r} is not a valid profile name: use letters, digits, '-' and '_'")
        if not self.description.strip():
            raise ValueError(f"the profile {self.name} needs a description that says when to use it")
        if isinstance(self.tools, str) or not isinstance(self.tools, Iterable | None):
            raise TypeError(f"the tools of the profile {self.name} must be a list of names")
        if self.tools is not None:
            msgspec.structs.force_setattr(self, "tools", tuple(self.tools))
        self.limits_within(Limits())

    def tools_of(self, tools: Iterable[Tool]) -> list[Tool]:
        """Return those of the parent's tools that the sub-agent has."""
        return [tool for tool in tools if tool.name != "Task" and (self.tools is None or tool.name in self.tools)]

    @property
    def server_tools(self) -> tuple[str, ...] | None:
        """The names and patterns of the tools of MCP servers that the sub-agent has; None for all."""
        return None if self.tools is None else tuple(name for name in self.tools if name.startswith("mcp__"))

    def limits_within(self, parent: Limits) -> Limits:
        """Return the sub-agent's limits, capped by the parent's unless they may exceed them.

        Raises ValueError for an unknown limit.
        """
        known = {name: value for name, value in self.limits.items() if name in parent.__struct_fields__}
        if unknown := self.limits.keys() - known.keys():
            name = min(unknown)
            names = ", ".join(parent.__struct_fields__)
            hint = f"it is called {FORMER_NAMES[name]} now" if name in FORMER_NAMES else f"known are {names}"
            raise ValueError(f"the profile {self.name} has an unknown limit {name!r}; {hint}")
        if not self.may_raise_limits:
            known = {name: _lower(value, getattr(parent, name)) for name, value in known.items()}
        return msgspec.structs.replace(parent, **known)


def _lower(one: float | None, other: float | None) -> float | None:
    given = [value for value in (one, other) if value is not None]
    return min(given) if given else None


def built_in() -> tuple[Profile, ...]:
    """Return the built-in profiles."""
    return (
        Profile(
            name="Explore",
            description="Finds things out in the project, fast and without changing anything: where something is, how "
            "it works, what depends on it. For questions that take more than two or three searches.",
            prompt=prompt("explore"),
            tools=READ_TOOLS,
            model="fast",
            limits={"max_turns": 40, "max_seconds": 900},
            may_raise_limits=False,
        ),
        Profile(
            name="Plan",
            description="Thinks a change through before it is made: reads what it touches, and comes back with the "
            "steps, the files and the risks. Changes nothing.",
            prompt=prompt("plan"),
            tools=READ_TOOLS,
            model="balanced",
            limits={"max_turns": 40, "max_seconds": 900},
            may_raise_limits=False,
        ),
        Profile(
            name="Bash",
            description="Runs commands and says what came of them: tests, builds, git. For output that is long and of "
            "which little matters.",
            prompt=prompt("shell"),
            tools=("Bash",),
            model="fast",
            limits={"max_turns": 30, "max_seconds": 1800},
            may_raise_limits=False,
        ),
        Profile(
            name="General",
            description="Carries out a task of several steps by itself, with all tools: research, changes, checks.",
            prompt=prompt("general"),
            model="balanced",
            limits={"max_turns": 80, "max_seconds": 3600},
            may_raise_limits=False,
        ),
    )
