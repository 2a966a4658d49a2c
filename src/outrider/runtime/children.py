"""The sessions of a session's sub-agents: their journals, their events and their usage."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from outrider.conversation.messages import Usage
from outrider.errors import LogError
from outrider.runtime.events import Compacted, Event, MessageAdded, OwnEvent, ReplyDiscarded, SubagentEvent
from outrider.tools.context import SubagentTask
from outrider.tools.threads import Threads

if TYPE_CHECKING:
    from outrider.log.journal import Journal


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
