"""The sessions of a session's sub-agents: their journals, their events and their usage."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from outrider.conversation.messages import Usage
from outrider.errors import LogError
from outrider.runtime.agent_settings import settings_of
from outrider.runtime.agent_spec import AgentSpec
from outrider.runtime.events import (
    Compacted,
    Event,
    MessageAdded,
    OwnEvent,
    ReplyDiscarded,
    SubagentEvent,
    SubagentStarted,
)
from outrider.text import clean
from outrider.tools.approval import Approver, for_subagent
from outrider.tools.context import SubagentTask
from outrider.tools.threads import Threads

if TYPE_CHECKING:
    from outrider.log.journal import Journal
    from outrider.runtime.session import Session

LONGEST_TITLE = 80


class Children:
    """Opens the journals of sub-agents, relays their events to the parent's observers, and sums their usage."""

    def __init__(self, emit: Callable[[Event], None], threads: Threads) -> None:
        self.usage = Usage()
        """The usage of all sub-agents of the session."""
        self._emit = emit
        self._threads = threads
        self._opening: asyncio.Lock | None = None

    def use_loop(self) -> None:
        """Prepare for a run in the current event loop; a lock belongs to one."""
        self._opening = None

    async def open(self, open_journal: Callable[[], Journal]) -> Journal:
        """Open a journal in a thread; close it at once if the caller was cancelled."""
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:  # one at a time: the log keeps them in call order
            opening = asyncio.ensure_future(self._threads.run(open_journal))
            try:
                return await asyncio.shield(opening)
            except asyncio.CancelledError:
                with contextlib.suppress(LogError):
                    (await opening).close()
                raise

    def relay(self, task: SubagentTask, child: str, event: Event) -> None:
        """Count the usage of a sub-agent, and send its own events on while its task runs."""
        if isinstance(event, MessageAdded | ReplyDiscarded | Compacted) and event.usage:
            self.usage += event.usage
        if isinstance(event, OwnEvent) and not task.is_over():
            self._emit(SubagentEvent(task.call_id, child, event))


async def open_child(
    parent: Session, task: SubagentTask, agent: AgentSpec, approve: Approver | None, cwd: Path | None
) -> Session:
    """Open a session for a sub-agent, which cannot start others. In a log, the one that this task had before."""
    around = parent._environment
    if parent._progress:
        parent._progress.count_subagent()
    about = clean(" ".join(f"{agent.name}: {task.title}".split()))[:LONGEST_TITLE]
    if parent._tools.servers and agent.mcp is parent.agent.mcp:
        agent = agent.replace(mcp=parent._tools.servers.running)
    child = type(parent)(
        agent, store=around.store, cwd=cwd or around.cwd, approve=approve or for_subagent(around.approve, about)
    )
    child._parent_progress = parent._progress
    child._environment = msgspec.structs.replace(child._environment, open_child=None)
    if parent._log and around.journal:
        settings = msgspec.structs.replace(settings_of(agent, child._environment.cwd), title=about)
        open_journal = partial(parent._log.open_child, task.session, settings, around.journal, task.call_id)
        child._attach_journal(await parent._children.open(open_journal), parent._log)
        said = [message for message in child.messages if message.role == "assistant"]
        child._earlier_turns = len(said), child.usage, said[-1].text if said else ""
    if not task.is_over():
        parent._emit(SubagentStarted(task.call_id, child.id, agent.name, task.title))
    child.observe(partial(parent._children.relay, task, child.id))
    return child
