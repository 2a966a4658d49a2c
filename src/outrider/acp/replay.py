"""Stored sessions as the events that they emitted live."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from outrider.conversation.messages import Message, ServerToolResultBlock, ServerToolUseBlock, TextBlock, ThinkingBlock
from outrider.errors import LogError
from outrider.log.entries import (
    CallResult,
    CompactionEntry,
    Entry,
    Intent,
    MessageEntry,
    Record,
    SteeringDelivered,
    SubagentLinked,
)
from outrider.log.log import Log
from outrider.prompts import prompt
from outrider.runtime.events import (
    Compacted,
    Event,
    MessageAdded,
    OwnEvent,
    ServerToolFinished,
    ServerToolStarted,
    SubagentEvent,
    SubagentStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
)


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
        yield from own.of(entry)
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
            for event in events.of(records.popleft().entry):
                yield SubagentEvent(call_id, session, event)


class EntryEvents:
    """The events of one session's entries. User messages are `MessageAdded` events."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._interrupted = prompt("interrupted")
        self._steering = ""
        """The id of the queued message that the next entry adds, if it is one."""

    def of(self, entry: Entry) -> Iterator[OwnEvent]:
        """Yield the events of the next entry."""
        match entry:
            case MessageEntry(message=message, usage=usage) if message.role == "assistant":
                self._names |= {call.id: call.name for call in message.tool_calls}
                yield from _deltas(message)
                yield MessageAdded(message, usage)
            case SteeringDelivered(id=id):
                self._steering = id
            case MessageEntry(message=message) if message.text != self._interrupted:
                yield MessageAdded(message, steering=self._steering)
                self._steering = ""
            case CompactionEntry(summary=summary, tokens_before=before, tokens_after=after):
                yield Compacted("manual", before, after, summary.text)
            case Intent(call_id=call_id, name=name, input=input, effect=effect):
                yield ToolStarted(call_id, name, input, effect)
            case CallResult(result=result, details=details):
                yield ToolFinished(result.tool_use_id, self._names.get(result.tool_use_id, ""), result, details)


def _deltas(message: Message) -> Iterator[OwnEvent]:
    served: dict[str, str] = {}
    for block in message.content:
        if isinstance(block, ServerToolUseBlock):
            served[block.id] = block.name
            yield ServerToolStarted(block.id, block.name, block.input)
        elif isinstance(block, ServerToolResultBlock):
            name = served.get(block.tool_use_id, "")
            yield ServerToolFinished(block.tool_use_id, name, block.text, block.is_error)
        elif isinstance(block, ThinkingBlock) and block.thinking:
            yield ThinkingDelta(block.thinking)
        elif isinstance(block, TextBlock) and block.text:
            yield TextDelta(block.text)
