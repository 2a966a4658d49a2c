"""The sessions of a session's sub-agents: a part of `Session` in its own file."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from outrider.conversation.messages import Usage
from outrider.errors import LogError
from outrider.log.entries import SessionSettings
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
from outrider.runtime.run import EarlierTurns
from outrider.text import clean
from outrider.tools.approval import Approver, for_subagent
from outrider.tools.context import SubagentTask
from outrider.tools.threads import Threads

if TYPE_CHECKING:
    from outrider.log.journal import Journal
    from outrider.runtime.record import SessionRecord
    from outrider.runtime.session import Session

LONGEST_TITLE = 80


class Children:
    """Opens the journals of sub-agents, relays their events to the parent's observers, and sums their usage."""

    def __init__(self, record: SessionRecord, threads: Threads) -> None:
        self.usage = Usage()
        """The usage of all sub-agents of the session."""
        self._record = record
        self._threads = threads
        self._opening: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    async def open_journal(self, task: SubagentTask, settings: SessionSettings) -> Journal | None:
        """Open the journal of a task in a thread, if there is a log; close it at once if the caller was cancelled."""
        log, journal = self._record.log, self._record.journal
        if log is None or journal is None:
            return None
        async with self._one_at_a_time():  # the log keeps them in call order
            opening = asyncio.ensure_future(
                self._threads.run(log.open_child, task.session, settings, journal, task.call_id)
            )
            try:
                return await asyncio.shield(opening)
            except asyncio.CancelledError:
                with contextlib.suppress(LogError):
                    (await opening).close()
                raise

    def _one_at_a_time(self) -> asyncio.Lock:
        """Return the lock of the current event loop: a lock belongs to one, and a session may run in several."""
        loop = asyncio.get_running_loop()
        if self._opening is None or self._opening[0] is not loop:
            self._opening = loop, asyncio.Lock()
        return self._opening[1]

    def announce(self, task: SubagentTask, child: str, agent: AgentSpec) -> Callable[[Event], None]:
        """Tell the observers that a sub-agent starts; return the observer that relays its events."""
        if not task.is_over():
            self._record.emit(SubagentStarted(task.call_id, child, agent.name, task.title, agent.provider.name))
        return partial(self._relay, task, child)

    def _relay(self, task: SubagentTask, child: str, event: Event) -> None:
        """Count the usage of a sub-agent, and send its own events on while its task runs."""
        if isinstance(event, MessageAdded | ReplyDiscarded | Compacted) and event.usage:
            self.usage += event.usage
        if isinstance(event, OwnEvent) and not task.is_over():
            self._record.emit(SubagentEvent(task.call_id, child, event))


async def open_child(
    session: weakref.ref[Session], task: SubagentTask, agent: AgentSpec, approve: Approver | None, cwd: Path | None
) -> Session:
    """Open a session for a sub-agent, which cannot start others. In a log, the one that this task had before."""
    parent = session()
    assert parent is not None  # it runs the call
    around, progress = parent._loop.environment, parent._record.progress
    if progress:
        progress.count_subagent()
    title = child_title(agent, task)
    agent = parent._loop.model.sharing_servers(agent)
    approve = approve or for_subagent(around.approve, title)
    child = type(parent)(agent, store=around.store, cwd=cwd or around.cwd, approve=approve)
    child._change_environment(open_child=None)
    child._parent_progress = progress
    settings = msgspec.structs.replace(settings_of(agent, child._loop.environment.cwd), title=title)
    if journal := await parent._children.open_journal(task, settings):
        assert parent._record.log is not None  # it has opened the journal
        child._attach(parent._record.log, journal)
        said = [message for message in child.messages if message.role == "assistant"]
        child._earlier_turns = EarlierTurns(len(said), child.usage, said[-1].text if said else "")
    child.observe(parent._children.announce(task, child.id, agent))
    return child


def child_title(agent: AgentSpec, task: SubagentTask) -> str:
    """Return the title of a sub-agent's session, which also names it in questions to the user."""
    return clean(" ".join(f"{agent.name}: {task.title}".split()))[:LONGEST_TITLE]
