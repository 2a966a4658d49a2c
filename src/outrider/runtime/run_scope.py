"""How one run differs from the session that it is in: its output, its deps, its goal and its model settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypedDict

import msgspec

from outrider.providers.base import Effort
from outrider.runtime.agent_spec import AgentSpec
from outrider.runtime.goal import Until
from outrider.runtime.limits import Limits
from outrider.tools.context import DepsT

if TYPE_CHECKING:
    from outrider.runtime.structured_output import Report


class ModelOptions(TypedDict, total=False):
    """Settings of the model for one run, instead of the agent's. None leaves the agent's."""

    effort: Effort | None
    """How much a reasoning model thinks."""
    temperature: float | None
    """The sampling temperature."""
    max_tokens: int | None
    """The longest reply, in tokens."""


class RunOptions(ModelOptions, Generic[DepsT], total=False):
    """What a run takes beside its prompt and its output."""

    limits: Limits | None
    """Where the run stops, instead of the agent's limits."""
    deps: DepsT | None
    """The dependencies of the tools, instead of the session's."""
    until: Until | None
    """The goal: an async function that returns True once it is reached, or a command if the coding agent runs it."""


def check_options(verb: str, given: Iterable[str], taken: Iterable[str]) -> None:
    """Raise TypeError for an option that a verb does not take; it names those that it takes."""
    known = sorted(taken)
    if unknown := [name for name in given if name not in known]:
        raise TypeError(f"{verb} takes no {unknown[0]!r}; beside the prompt it takes {', '.join(known)}")


class RunScope(msgspec.Struct, frozen=True):
    """How one run differs."""

    report: Report | None = None
    """What the run has to return."""
    deps: Any = None
    """The dependencies of its tools; None for the session's."""

    settings: Mapping[str, Any] = {}
    """Fields of the agent that are others in it."""
    until: Until | None = None
    """Its goal."""

    def agent_of(self, agent: AgentSpec) -> AgentSpec:
        """Return the agent of the run. It uses the connections of the session's."""
        if self.settings:
            agent = agent.replace(model=agent.provider, **self.settings)
        return self.report.attached_to(agent) if self.report else agent
