"""The events of entries, by one function: for a session that runs, and for one that is loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from msgspec import UNSET

from outrider.conversation.messages import ServerToolResultBlock, ServerToolUseBlock, TextBlock, ThinkingBlock
from outrider.log import entries as logged
from outrider.log.run_state import RunState
from outrider.log.state import SessionState
from outrider.providers.base import REMARKABLE
from outrider.runtime import events

if TYPE_CHECKING:
    from outrider.conversation.messages import Message
    from outrider.log.entries import Entry, Record


def events_of(entry: Entry, state: SessionState) -> Sequence[events.OwnEvent]:
    """Return the events of an entry that was just applied to this state, and that said something new."""
    match entry:
        case logged.MessageEntry():
            return _message_events(entry, state)
        case logged.Intent():
            return (start_of(entry),)
        case logged.CallResult(result=result):
            seq = state.seq or None
            finished = events.ToolFinished(result.tool_use_id, state.answered_tool, result, entry.details, seq)
            return (finished, events.MessageAdded(state.results, entry=seq)) if state.results else (finished,)
        case logged.CompactionEntry(summary=summary, tokens_before=before, tokens_after=after, usage=usage):
            reason = cast("events.CompactionReason", entry.reason or "manual")
            return (events.Compacted(reason, before, after, summary.text, usage, state.seq or None),)
        case logged.ResultsClearedEntry(count=count, tokens=tokens):
            return (events.ResultsCleared(count, tokens),)
        case logged.RunStopped():
            return (ending(entry, state, state.seq or None),)
    return _news(entry, state)


def start_of(intent: logged.Intent) -> events.ToolStarted:
    """Return the start of a call."""
    return events.ToolStarted(intent.call_id, intent.name, intent.input, intent.effect)


def _news(entry: Entry, state: SessionState) -> Sequence[events.OwnEvent]:
    """Return the events of entries beside the conversation."""
    match entry:
        case logged.TitleEntry(title=title) if title and state.settings.title is None:
            return (events.TitleMade(title),)
        case logged.SteeringQueued(id=id, message=message):
            return (events.SteeringQueued(id, message),)
        case logged.SteeringWithdrawn(id=id):
            return (events.SteeringWithdrawn(id),)
        case logged.GoalChecked(command=command, passed=passed, last_line=last_line):
            number = state.run.checks if state.run else 1
            return (events.GoalChecked(command, passed, number, last_line, state.seq or None),)
        case logged.Asked(id=id, call_id=call_id, question=question):
            return (events.QuestionAsked(id, call_id, question),)
        case logged.SessionSettings():
            return (changed,) if (changed := change_of(entry)) else ()
        case logged.BackgroundTask(status=status, is_told=False) if status:
            return (subagent_finished(entry),)
        case logged.Decided(question=id, allowed=allowed, answer=answer, by=by) if id:
            return (events.QuestionAnswered(id, allowed, answer, by),)
    return ()


def subagent_finished(task: logged.BackgroundTask) -> events.SubagentFinished:
    """Return the event of a sub-agent in the background that has ended."""
    has_data = task.structured_output is not UNSET
    data = task.structured_output if has_data else None
    return events.SubagentFinished(
        task.call_id, task.session, task.name, task.title, task.status, task.note, data, has_data
    )


def change_of(entry: logged.SessionSettings) -> events.ModelSwitched | events.HandedOff | None:
    """Return the event of settings that a run has changed by itself; None if a person or a program did."""
    if entry.former is None:
        return None
    if entry.reason:
        return events.ModelSwitched(entry.former, entry.model or "", entry.reason)
    return events.HandedOff(entry.former, entry.agent or "")


def _message_events(entry: logged.MessageEntry, state: SessionState) -> Sequence[events.OwnEvent]:
    if entry.message.role != "assistant":
        return (events.MessageAdded(entry.message, None, state.delivered, state.seq or None),)
    added = events.MessageAdded(entry.message, entry.usage, entry=state.seq or None)
    remark = REMARKABLE.get(entry.stop_reason)
    if not remark:
        return (added,)
    return added, events.Notice(f"{remark}: {entry.stop_detail}" if entry.stop_detail else remark)


def ending(entry: logged.RunStopped, state: SessionState, seq: int | None = None) -> events.RunFinished:
    """Return the end of a run: the final result, or the newest reply."""
    run = state.run or RunState()
    text, data, has_data, last = run.text, None, False, state.history.last
    if entry.status == "done" and last and last.role == "assistant":
        text = last.text  # perhaps from before the run
    if (final := state.final) and (run.turns or entry.status == "done"):
        text = final.result.text
        if isinstance(final.details, Mapping) and "structured_output" in final.details:
            data, has_data = final.details["structured_output"], True
    if entry.output is not UNSET:
        data, has_data = entry.output, True
    text = text if entry.text is UNSET else entry.text
    status = cast("events.RunStatus", entry.status)
    ended = status, entry.turns, entry.usage, text, entry.error, run.stop_reason, data, has_data
    return events.RunFinished(*ended, seq)


class EntryEvents:
    """The events of the entries of a stored session, with the deltas of its replies."""

    def __init__(self) -> None:
        self._state = SessionState()

    def of(self, record: Record) -> Iterator[events.OwnEvent]:
        """Yield the events of the next entry."""
        entry = record.entry
        if self._state.apply(entry, record.seq):
            if isinstance(entry, logged.MessageEntry) and entry.message.role == "assistant":
                yield from deltas_of(entry.message)
            yield from events_of(entry, self._state)


def deltas_of(message: Message) -> Iterator[events.Delta]:
    """Yield a stored reply as it streamed: only these events of a running reply have no entry."""
    served: dict[str, str] = {}
    for block in message.content:
        if isinstance(block, ServerToolUseBlock):
            served[block.id] = block.name
            yield events.ServerToolStarted(block.id, block.name, block.input)
        elif isinstance(block, ServerToolResultBlock):
            name = served.get(block.tool_use_id, "")
            yield events.ServerToolFinished(block.tool_use_id, name, block.text, block.is_error)
        elif isinstance(block, ThinkingBlock) and block.thinking:
            yield events.ThinkingDelta(block.thinking)
        elif isinstance(block, TextBlock) and block.text:
            yield events.TextDelta(block.text)
