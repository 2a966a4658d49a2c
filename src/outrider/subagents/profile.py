"""Who can be sent out: what a sub-agent is for, what it is told, and what it may use."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from outrider.prompts import prompt
from outrider.runtime.limits import Limits
from outrider.tools.tool import Tool

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
READING = ("Read", "Glob", "Grep", "WebFetch")


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of sub-agent.

    >>> Profile(name="Reader", description="Reads what it is told to.", tools=["Read"]).tools
    ('Read',)
    """

    name: str
    description: str
    """When to send one out, for the model that does."""
    prompt: str = ""
    """Its instructions."""
    tools: Sequence[str] | None = None
    """The names of the tools that it has of those of its sender; None for all of them. Never Task."""
    model: str = ""
    """Who answers: a tier (`fast`, `balanced`, `powerful`), a model by name, or, if empty, as its sender."""
    limits: Mapping[str, Any] = {}
    """Where it stops, as far as that is not where its sender does: fields of `Limits`."""
    schemas: bool = True
    """Whether it may be asked for a report by a JSON Schema."""
    may_raise: bool = True
    """Whether its limits may be higher than its sender's: those of users may; built-in ones and a project's may not."""
    is_foreign: bool = False
    """Whether a project brings it, so that it may not choose another vendor's model."""

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} cannot be a profile's name: it takes letters, digits, '-' and '_'")
        if not self.description.strip():
            raise ValueError(f"the profile {self.name} needs a description, which says when to send one out")
        if isinstance(self.tools, str) or not isinstance(self.tools, Iterable | None):
            raise TypeError(f"the tools of the profile {self.name} are a list of names")
        if self.tools is not None:
            msgspec.structs.force_setattr(self, "tools", tuple(self.tools))
        self.limits_within(Limits())

    def tools_of(self, tools: Iterable[Tool]) -> list[Tool]:
        """Those of its sender's tools that it has."""
        return [tool for tool in tools if tool.name != "Task" and (self.tools is None or tool.name in self.tools)]

    def limits_within(self, senders: Limits) -> Limits:
        """Its limits, below its sender's if they may not be higher. Raises ValueError for what is no limit."""
        known = {name: value for name, value in self.limits.items() if name in senders.__struct_fields__}
        if unknown := self.limits.keys() - known.keys():
            names = ", ".join(senders.__struct_fields__)
            raise ValueError(f"the profile {self.name} has a limit {sorted(unknown)[0]!r}; there are {names}")
        if not self.may_raise:
            known = {name: _lower(value, getattr(senders, name)) for name, value in known.items()}
        return msgspec.structs.replace(senders, **known)


def _lower(one: float | None, other: float | None) -> float | None:
    given = [value for value in (one, other) if value is not None]
    return min(given) if given else None


def built_in() -> tuple[Profile, ...]:
    """The profiles that are there for everybody."""
    return (
        Profile(
            name="Explore",
            description="Finds things out in the project, fast and without changing anything: where something is, how "
            "it works, what depends on it. For questions that take more than two or three searches.",
            prompt=prompt("explore"),
            tools=READING,
            model="fast",
            limits={"turns": 40, "seconds": 900},
            may_raise=False,
        ),
        Profile(
            name="Plan",
            description="Thinks a change through before it is made: reads what it touches, and comes back with the "
            "steps, the files and the risks. Changes nothing.",
            prompt=prompt("plan"),
            tools=READING,
            model="balanced",
            limits={"turns": 40, "seconds": 900},
            may_raise=False,
        ),
        Profile(
            name="Bash",
            description="Runs commands and says what came of them: tests, builds, git. For output that is long and of "
            "which little matters.",
            prompt=prompt("shell"),
            tools=("Bash",),
            model="fast",
            limits={"turns": 30, "seconds": 1800},
            may_raise=False,
        ),
        Profile(
            name="General",
            description="Carries out a task of several steps by itself, with all tools: research, changes, checks.",
            prompt=prompt("general"),
            model="balanced",
            limits={"turns": 80, "seconds": 3600},
            may_raise=False,
        ),
    )
