"""Stored sessions as the events that they emitted live."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from outrider.conversation.messages import Message, ServerToolResultBlock, ServerToolUseBlock, TextBlock, ThinkingBlock
from outrider.log.entries import CallResult, CompactionEntry, Entry, Intent, MessageEntry
from outrider.prompts import prompt
from outrider.runtime.events import (
    Compacted,
    Event,
    MessageAdded,
    ServerToolFinished,
    ServerToolStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
)


def replay_events(entries: Iterable[Entry]) -> Iterator[Event]:
    """Yield the events of the log entries, in order. User messages are `MessageAdded` events."""
    names: dict[str, str] = {}
    interrupted = prompt("interrupted")
    for entry in entries:
        match entry:
            case MessageEntry(message=message, usage=usage) if message.role == "assistant":
                names |= {call.id: call.name for call in message.tool_calls}
                yield from _deltas(message)
                yield MessageAdded(message, usage)
            case MessageEntry(message=message) if message.text != interrupted:
                yield MessageAdded(message)
            case CompactionEntry(summary=summary, tokens_before=before, tokens_after=after):
                yield Compacted("manual", before, after, summary.text)
            case Intent(call_id=call_id, name=name, input=input, effect=effect):
                yield ToolStarted(call_id, name, input, effect)
            case CallResult(result=result, details=details):
                yield ToolFinished(result.tool_use_id, names.get(result.tool_use_id, ""), result, details)


def _deltas(message: Message) -> Iterator[Event]:
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
