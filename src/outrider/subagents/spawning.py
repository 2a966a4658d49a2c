"""Start a sub-agent from a tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outrider.runtime.agent_spec import AgentSpec
from outrider.runtime.session import Session
from outrider.tools.approval import Approver
from outrider.tools.context import ToolContext

if TYPE_CHECKING:
    from pathlib import Path


async def spawn(
    context: ToolContext[Any],
    agent: AgentSpec,
    *,
    title: str = "",
    approve: Approver | None = None,
    cwd: Path | None = None,
) -> Session:
    """Open a session for a sub-agent of a running call. The caller runs it and closes it.

    Observers see its events below the call. In a log it is a session of its own. When the call runs again after a
    crash, `spawn` returns the same session with all its messages: continue it with `run()`. A sub-agent cannot start
    others. It uses the approver of the call's session unless `approve` is given. Its usage counts towards the call's
    run.
    """
    session: Session = await context.open_child(agent, title, approve, cwd)
    return session
