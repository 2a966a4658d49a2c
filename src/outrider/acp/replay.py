"""Stored sessions as the events that they emitted live."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from outrider.errors import LogError
from outrider.log.entries import CallResult, Record, SubagentLinked
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
        yield from children.until(record.time, entry.result.tool_use_id if isinstance(entry, CallResult) else "")
        yield from own.of(record)
    yield from children.until(float("inf"))


class ReplayedChildren:
    """The sub-agents that run at a moment of the replay."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._running: dict[str, tuple[str, deque[Record], EntryEvents]] = {}
        """By session: the call that started it, and the entries that are not replayed yet."""

    def start(self, link: SubagentLinked) -> Iterator[Event]:
        """Yield the start of a sub-agent."""
        try:
            records = deque(self._log.records(link.session))
            title = self._log.claimed_settings(link.session).title or ""
        except LogError:  # it was deleted, or belongs to a log that this session was imported from
            return
        name, _, task = title.partition(": ")
        self._running[link.session] = link.call_id, records, EntryEvents()
        yield SubagentStarted(link.call_id, link.session, name, task)

    def until(self, moment: float, ended: str = "") -> Iterator[Event]:
        """Yield what sub-agents did until then, and all that is left of those whose call has ended."""
        while due := [
            (records[0].time, session)
            for session, (call_id, records, _) in self._running.items()
            if records and (records[0].time <= moment or call_id == ended)
        ]:
            session = min(due)[1]
            call_id, records, events = self._running[session]
            for event in events.of(records.popleft()):
                yield SubagentEvent(call_id, session, event)
