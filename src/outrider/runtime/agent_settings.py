"""What the log knows of an agent, and the agent that can be made of it. Tools are functions and cannot be stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from outrider.errors import LogError
from outrider.log.entries import SessionSettings
from outrider.runtime.agent_spec import AgentSpec
from outrider.runtime.limits import Limits
from outrider.text import clean
from outrider.tools.tool import make_tools

_KEPT = ("turns", "tokens", "cost", "seconds")


def settings_of(agent: AgentSpec, cwd: Path) -> SessionSettings:
    """What the log should know. No tools are not recorded: whoever goes on without them sees which there were."""
    model = agent.model if isinstance(agent.model, str) else agent.provider.name
    tools = tuple(tool.name for tool in make_tools(agent.tools)) or None
    limits = msgspec.to_builtins(agent.limits)
    return SessionSettings(None, clean(model), clean(agent.system), tools, limits, clean(str(cwd)))


def agent_of(settings: SessionSettings) -> AgentSpec:
    """The agent, without its tools."""
    if settings.model is None:
        raise LogError("the log does not say which model answered; pass agent=Agent(…)")
    return AgentSpec(settings.model, system=settings.system or "", limits=limits_of(settings))


def limits_of(settings: SessionSettings) -> Limits:
    """The limits that the log has; the usual ones if it has none that can be used."""
    try:
        return msgspec.convert(settings.limits or {}, Limits)
    except (msgspec.ValidationError, ValueError):
        return Limits()


def kept_limits(settings: SessionSettings) -> dict[str, Any]:
    """A session keeps the limits that it was begun with, where they are not the usual ones. As settings, by key."""
    kept, usual = limits_of(settings), Limits()
    changed = {name: getattr(kept, name) for name in _KEPT if getattr(kept, name) != getattr(usual, name)}
    return {f"limits.{name}": "none" if value is None else value for name, value in changed.items()}


def cwd_of(settings: SessionSettings) -> str | None:
    """The folder in which it worked, if that is still there."""
    return settings.cwd if settings.cwd and Path(settings.cwd).is_dir() else None
