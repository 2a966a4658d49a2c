"""Profiles of sub-agents: purpose, instructions, tools, model and limits; which model a sub-agent gets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from outrider.errors import UnknownModelError
from outrider.prompts import prompt
from outrider.providers.base import Provider
from outrider.providers.catalogue.tiers import TIERS, models_of, override_of
from outrider.providers.catalogue.vendors import qualified
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
    isolation: str = ""
    """`worktree`: each works in a git worktree of its own, whose changes are merged when it ends. Only for sub-agents
    of the coding agent."""
    output: Any = None
    """What each sub-agent returns instead of text: data for this Python type or JSON Schema. The call that starts it
    then names no schema of its own."""

    def __post_init__(self) -> None:
        if not re.fullmatch(NAME, self.name):
            raise ValueError(f"{self.name!r} is not a valid profile name: use letters, digits, '-' and '_'")
        if not self.description.strip():
            raise ValueError(f"the profile {self.name} needs a description that says when to use it")
        if isinstance(self.tools, str) or not isinstance(self.tools, Iterable | None):
            raise TypeError(f"the tools of the profile {self.name} must be a list of names")
        if self.tools is not None:
            msgspec.structs.force_setattr(self, "tools", tuple(self.tools))
        if self.isolation not in ("", "worktree"):
            raise ValueError(f"isolation of the profile {self.name} must be worktree, not {self.isolation!r}")
        given: Any = self.limits  # perhaps Limits(…)
        if not isinstance(given, Mapping):
            shown = type(given).__name__
            raise TypeError(
                f"the limits of the profile {self.name} must be a mapping as {{'max_turns': 3}}, not {shown}"
            )
        self.limits_within(Limits())
        if self.output is not None:
            from outrider.runtime.structured_output import Report  # few profiles have one

            Report(self.output)  # refuses what cannot be used now, not in the first call

    @property
    def takes_schemas(self) -> bool:
        """Whether the call that starts a sub-agent may say what data it returns."""
        return self.schemas and self.output is None

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


INHERIT = ("", "inherit")


def model_for(wanted: str, parent: Provider, *, from_project: bool = False) -> str | Provider:
    """Return the model that a sub-agent uses: a model by name, a tier of the parent's vendor, or the parent's model.

    A tier stays with the parent's vendor, so that the conversation is not sent to another one, unless the user has set
    the tier to a model of another vendor. A name that a project chose must be of the parent's vendor, too.
    """
    if from_project and not same_vendor(wanted, parent):
        return parent
    if wanted not in TIERS:
        return parent if wanted in INHERIT else wanted
    if override_of(wanted):
        return wanted
    provider = parent.name.partition("/")[0]
    return f"{provider}/{wanted}" if models_of(provider) else parent


def describe_model(wanted: str, parent: Provider, *, from_project: bool = False) -> str:
    """Describe the model that `model_for` returns to the parent: a tier, a name, or "the same as yours"."""
    try:
        model = model_for(wanted, parent, from_project=from_project)
    except UnknownModelError:  # starting the sub-agent reports it
        return wanted
    return wanted if isinstance(model, str) else "the same as yours"


def same_vendor(wanted: str, parent: Provider) -> bool:
    """Return whether a model by name belongs to the parent's vendor."""
    return wanted in (*INHERIT, *TIERS) or _vendor(wanted) == _vendor(parent.name)


def _vendor(model: str) -> str:
    """Return who receives the requests of a model: a provider, a server by its address, or LiteLLM's upstream."""
    if "://" in model:
        return model.partition("#")[0].rstrip("/")
    parts = qualified(model).split("/")
    return "/".join(parts[:2] if parts[0] == "litellm" else parts[:1])
