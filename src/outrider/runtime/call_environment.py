"""What the calls of one session share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from outrider.conversation.store import AttachmentStore
from outrider.runtime.events import Event
from outrider.runtime.hooks import NO_HOOKS, Hooks
from outrider.runtime.limits import Limits
from outrider.tools.approval import Approver
from outrider.tools.context import OpenChild
from outrider.tools.threads import Threads

if TYPE_CHECKING:
    from pathlib import Path

    from outrider.log.pending_write import PendingWrite
    from outrider.runtime.agent_spec import AgentSpec
    from outrider.runtime.background import Background
    from outrider.runtime.folder_watch import FolderWatch
    from outrider.runtime.waits import Person, Waits


class CallEnvironment(msgspec.Struct, frozen=True):
    """What the calls of one session share."""

    session: str
    """The session's id."""
    emit: Callable[[Event], None]
    write: Callable[..., PendingWrite]
    """Keeps entries: intents and results."""
    store: AttachmentStore
    threads: Threads
    limits: Limits
    cwd: Path
    approve: Approver | None = None
    """Decides whether a call may run; without one, every call may."""
    open_child: OpenChild | None = None
    """Opens a session for a sub-agent; None in the session of a sub-agent."""
    background: Background | None = None
    """Runs sub-agents that no call waits for; None in the session of a sub-agent."""
    watch: FolderWatch | None = None
    """Takes snapshots of the working folder around calls that may write, in a session that can rewind its files."""
    deps: Any = None
    """The dependencies that tools receive."""
    hooks: Hooks = NO_HOOKS
    """The hooks of the agent."""
    agent: AgentSpec[Any] | None = None
    """The agent of the session; None for calls outside of one."""
    waits: Waits | None = None
    """Keeps the questions that calls wait for; None for calls outside of a session."""
    person: Person | None = None
    """Asks a person who is there. Without one, a call that has to ask waits."""

    sends: Callable[[str], bool] = lambda text: False
    """Returns whether a result has a text, in the conversation as it is sent."""

    @property
    def is_subagent(self) -> bool:
        """Whether this is the session of a sub-agent."""
        return self.open_child is None
