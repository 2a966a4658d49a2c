"""Stored sessions as the events that they emitted live."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from outrider.errors import LogError
from outrider.log.entries import BackgroundTask, CallResult, Record, SubagentLinked
from outrider.log.log import Log
from outrider.runtime.entry_events import EntryEvents
from outrider.runtime.events import Event, SubagentEvent, SubagentStarted


def replay_session(log: Log, id: str) -> Iterator[Event]:
    """Yield the events of a session and of its sub-agents, in the order in which they happened."""
    children = ReplayedChildren(log)
    own = EntryEvents()
    for record in log.shown_records(id):
        entry = record.entry
        if isinstance(entry, SubagentLinked):
            yield from children.start(entry)
            continue
        if isinstance(entry, BackgroundTask):
            yield from children.change(entry)
        yield from children.until(record.time, entry.result.tool_use_id if isinstance(entry, CallResult) else "")
        yield from own.of(record)
    yield from children.until(float("inf"))


class ReplayedChildren:
    """The sub-agents that run at a moment of the replay."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._running: dict[str, tuple[str, deque[Record], EntryEvents]] = {}
        """By session: the call that started it, and the entries that are not replayed yet."""
        self._behind: dict[str, BackgroundTask] = {}
        """Those in the background, as they are at the moment."""

    def start(self, link: SubagentLinked) -> Iterator[Event]:
        """Yield the start of a sub-agent."""
        try:
            records = deque(self._log.records(link.session))
            title = self._log.claimed_settings(link.session).title or ""
        except LogError:  # it was deleted, or belongs to a log that this session was imported from
            return
        name, _, task = title.partition(": ")
        self._running[link.session] = link.call_id, records, EntryEvents()
        yield SubagentStarted(link.call_id, link.session, name, task, background=link.session in self._behind)

    def change(self, task: BackgroundTask) -> Iterator[Event]:
        """Yield that one in the background goes on after its end."""
        before = self._behind.get(task.session)
        self._behind[task.session] = task
        if before and before.status and not task.status and task.session in self._running:
            yield SubagentStarted(task.call_id, task.session, task.name, task.title, background=True)

    def until(self, moment: float, ended: str = "") -> Iterator[Event]:
        """Yield what sub-agents did until then, and all that is left of those whose call has ended."""
        while due := [
            (records[0].time, session)
            for session, (call_id, records, _) in self._running.items()
            if records and (records[0].time <= moment or (call_id == ended and session not in self._behind))
        ]:
            session = min(due)[1]
            call_id, records, events = self._running[session]
            for event in events.of(records.popleft()):
                yield SubagentEvent(call_id, session, event)
