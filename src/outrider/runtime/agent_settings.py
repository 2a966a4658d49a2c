"""The settings of an agent in the log, and the agent made from them. Tools are functions and cannot be stored."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from outrider.errors import LogError
from outrider.log.entries import SessionSettings
from outrider.providers.base import EFFORTS, Effort
from outrider.runtime.agent_spec import AgentSpec
from outrider.runtime.limits import FORMER_NAMES, Limits
from outrider.struct_types import described
from outrider.text import clean
from outrider.tools.tool import make_tools

if TYPE_CHECKING:
    from pathlib import Path

_KEPT = ("max_turns", "max_total_tokens", "max_cost", "max_seconds")


def settings_of(agent: AgentSpec, cwd: Path) -> SessionSettings:
    """Return the settings to store. An empty tool list is not stored, so resuming shows the previous tools."""
    model = agent.model if isinstance(agent.model, str) else agent.provider.name
    served = [tool.name for tool in agent.server_tools]
    tools = (*(tool.name for tool in make_tools(agent.tools)), *served) or None
    limits = msgspec.to_builtins(agent.limits)
    system = "\n\n".join(part for part in (agent.stored_system, agent.situation) if part.strip())
    return SessionSettings(None, clean(model), clean(system), tools, limits, clean(str(cwd)), agent.effort or "")


def agent_of(settings: SessionSettings) -> AgentSpec:
    """Return the agent, without its tools."""
    if not settings.model:
        if settings.elsewhere:
            raise LogError("the session was written elsewhere, so its model is not used; pass agent=Agent(…)")
        raise LogError("the log does not say which model answered; pass agent=Agent(…)")
    effort = effort_of(settings)
    name = settings.agent or "agent"
    return AgentSpec(settings.model, system=settings.system or "", limits=limits_of(settings), name=name, effort=effort)


def effort_of(settings: SessionSettings) -> Effort | None:
    """Return the stored effort, or None if there is none that can be used."""
    return next((effort for effort in EFFORTS if effort == settings.effort), None)


def limits_of(settings: SessionSettings) -> Limits:
    """Return the stored limits, or the defaults if they cannot be used."""
    try:
        stored = {FORMER_NAMES.get(name, name): value for name, value in (settings.limits or {}).items()}
        return msgspec.convert(stored, described(Limits))
    except (msgspec.ValidationError, ValueError):
        return Limits()


def kept_limits(settings: SessionSettings) -> dict[str, Any]:
    """Return the limits that a resumed session keeps, because they differ from the defaults, by setting key."""
    kept, usual = limits_of(settings), Limits()
    found = {name: getattr(kept, name) for name in _KEPT}
    return {f"limits.{name}": value for name, value in found.items() if value not in (None, getattr(usual, name))}


def cwd_of(settings: SessionSettings) -> str | None:
    """Return the working directory of the session, if it still exists."""
    return settings.cwd if settings.cwd and os.path.isdir(settings.cwd) else None
