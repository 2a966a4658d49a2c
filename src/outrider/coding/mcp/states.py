"""The state of MCP servers, in lines for people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from outrider.text import counted

if TYPE_CHECKING:
    from outrider.mcp.supervision import ServerStatus

_WORDS = {
    "starting": "starting",
    "ready": "ready",
    "restarting": "is started again",
    "failed": "failed",
    "closed": "closed",
}


def state_lines(statuses: Iterable[ServerStatus]) -> list[str]:
    """Return a line for each server: its name, its state, its tools, and why it failed."""
    every = list(statuses)
    width = max((len(status.name) for status in every), default=0)
    return [f"{status.name:{width}}  {_state(status)}" for status in every]


def _state(status: ServerStatus) -> str:
    tools = counted(status.tools, "tool") if status.tools else ""
    version = f"protocol {status.version}" if status.version and status.state == "ready" else ""
    return ", ".join(filter(None, (_WORDS[status.state], tools, version, status.error)))
