"""Translates session events into session updates for the editor, live and when a stored session is replayed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from outrider.acp.compactions import Compactions
from outrider.acp.streamed_arguments import StreamedArguments
from outrider.acp.subagent_activity import SubagentActivity
from outrider.acp.tool_calls import exit_code_of, final_fields, kind_of, new_call, partial_fields, status_of
from outrider.acp.update_sender import UpdateSender
from outrider.acp.updates.call_state import CallState, Status, Terminal, Text
from outrider.acp.updates.engine import Engine
from outrider.conversation.messages import TextBlock, ToolResultBlock, ToolUseBlock
from outrider.runtime.events import (
    Compacted,
    CompactionStarted,
    Event,
    MessageAdded,
    Notice,
    ReplyDiscarded,
    ResultsCleared,
    Retrying,
    RunFinished,
    ServerToolFinished,
    ServerToolStarted,
    SubagentEvent,
    SubagentStarted,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)

UNFINISHED = "The call did not run: the turn ended first."
DISCARDED = "The part of this reply that was shown is discarded."


class EventTranslator:
    """Handles the events of one session. Text goes straight to the sender, after a flush of the engine; tool calls go
    through the engine."""

    def __init__(self, engine: Engine, sender: UpdateSender, folder: Path, *, appends: bool = False) -> None:
        self._engine = engine
        self._sender = sender
        self._folder = folder
        self._appends = appends
        """Whether the output of a command is appended to a terminal in its call."""
        self._calls: dict[str, CallState] = {}
        """The open calls as they were announced, with the ids that the editor knows."""
        self._arguments: dict[str, StreamedArguments] = {}
        self._activities: dict[str, SubagentActivity] = {}
        self._compactions = Compactions(sender)
        self._with_output: set[str] = set()
        """The ids of calls whose output is being shown."""
        self._shown = False
        """Whether a part of the current reply was sent."""
        self.is_replaying = False
        """Whether a stored session is replayed: then the user's messages are sent, too."""

    def handle(self, event: Event) -> None:
        """Send the updates for one event."""
        match event:
            case TextDelta(text=text):
                self._shown = True
                self._engine.flush()
                self._sender.send_text(text)
            case ThinkingDelta(text=text):
                self._shown = True
                self._engine.flush()
                self._sender.send_thought(text)
            case ToolProgress(call_id=call_id, content=content):
                self._on_progress(call_id, content)
            case MessageAdded():
                self._on_message(event)
            case ReplyDiscarded(reason=reason):
                self._end_open_calls(reason)
            case Retrying():
                self._on_retry(event)
            case Notice(text=text):
                self._engine.flush()
                self._sender.send_notice(text)
            case RunFinished(status=status, error=error):
                if error and self._shown:  # the reply broke off; the response to the prompt has the error
                    self._sender.send_notice(DISCARDED)
                self._shown = False
                self.end("cancelled" if status == "cancelled" else "failed")
            case _:
                self._on_step(event)

    def _on_retry(self, event: Retrying) -> None:
        """Send one notice for a row of failures, and another if a part of a reply is discarded."""
        if event.attempt == 2 or self._shown:
            self._engine.flush()
            self._sender.send_notice(f"{event.text}. {DISCARDED}" if self._shown else event.text)
        self._shown = False

    def _on_step(self, event: Event) -> None:
        match event:
            case ToolCallDelta():
                self._on_arguments(event)
            case ToolStarted():
                self._on_started(event)
            case ToolFinished():
                self._on_finished(event)
            case ServerToolStarted(call_id=call_id, name=name, input=input):
                self._shown = True
                self.announce(ToolUseBlock(call_id, name, input))
                self._engine.change(self.tool_call_id(call_id), status="in_progress")
            case ServerToolFinished(call_id=call_id, name=name, text=text, is_error=is_error):
                content = (TextBlock(text),) if text else ()
                self._on_finished(ToolFinished(call_id, name, ToolResultBlock(call_id, content, is_error)))
            case SubagentStarted() | SubagentEvent():
                self._on_subagent(event)
            case CompactionStarted() | Compacted() | ResultsCleared():
                self._engine.flush()
                self._compactions.handle(event, is_replaying=self.is_replaying)

    def announce(self, use: ToolUseBlock) -> None:
        """Announce a call with all its arguments, or complete the arguments of one that is announced already."""
        if use.id in self._calls and use.id not in self._arguments:
            return
        self._arguments.pop(use.id, None)
        shown_id, reads_files = self.tool_call_id(use.id), not self.is_replaying
        self._announce(use.id, new_call(shown_id, use.name, use.input, self._folder, reads_files=reads_files))

    def tool_call_id(self, call_id: str) -> str:
        """Return the id by which the editor knows a call."""
        return self._calls[call_id].id if call_id in self._calls else call_id

    def _announce(self, call_id: str, state: CallState) -> None:
        """Announce a call. If a call with its id has ended, as in a discarded reply, number the new one."""
        number = 1
        while not self._engine.announce(state):
            number += 1
            state = replace(state, id=f"{call_id}-{number}")
        self._calls[call_id] = state

    def end(self, status: Status = "failed") -> None:
        """End the turn: end every open call and send everything that is queued."""
        self._compactions.end(status)
        self._end_open_calls(UNFINISHED, status)
        self._engine.flush()

    def _on_arguments(self, delta: ToolCallDelta) -> None:
        self._shown = True
        call_id, name = delta.call_id, delta.name
        if call_id not in self._arguments:
            self._arguments[call_id] = StreamedArguments()
            self._announce(call_id, CallState(call_id, name, name, kind_of(name)))
        if (known := self._arguments[call_id].add(delta.arguments)) is not None:
            self._engine.change(self.tool_call_id(call_id), **partial_fields(name, known, self._folder))

    def _on_message(self, event: MessageAdded) -> None:
        message = event.message
        self._shown = False
        if message.role == "assistant":
            self._sender.send_sources(message)
            self._sender.send_pictures(message)
            self._match_renamed(message.tool_calls)
            for use in message.tool_calls:
                self.announce(use)
        elif self.is_replaying:
            self._engine.flush()
            self._sender.send_user_message(message)
        if event.usage:
            self._sender.send_usage(event.usage.total_tokens)

    def _match_renamed(self, uses: Sequence[ToolUseBlock]) -> None:
        """Match streamed calls to the final ones. Calls with duplicate ids get new ids when the reply is complete."""
        streamed = [each for each in self._arguments if each not in {use.id for use in uses}]
        renamed = [use.id for use in uses if use.id not in self._arguments]
        for old, new in zip(streamed, renamed, strict=False):
            self._arguments[new] = self._arguments.pop(old)
            self._calls[new] = self._calls.pop(old)

    def _on_started(self, event: ToolStarted) -> None:
        self.announce(ToolUseBlock(event.call_id, event.name, event.input))
        shown_id = self.tool_call_id(event.call_id)
        has_terminal = self._appends and event.name == "Bash"
        if has_terminal:
            self._add_terminal(event.call_id, shown_id)
        self._engine.change(shown_id, status="in_progress")
        if has_terminal:
            self._engine.flush()  # even a slow editor must know the terminal before its output arrives

    def _add_terminal(self, call_id: str, terminal: str) -> None:
        state = self._calls[call_id]
        self._calls[call_id] = state = replace(state, content=(*state.content, Terminal(terminal)))
        self._engine.change(state.id, content=state.content)

    def _on_progress(self, call_id: str, content: Any) -> None:
        state = self._calls.get(call_id)
        if state is None:
            return
        match content:
            case {"output": str(text)}:
                if state.id not in self._with_output:
                    self._with_output.add(state.id)
                    self._prepare_output(call_id, state)
                self._engine.append(state.id, text)
            case {"terminal": str(terminal)}:
                self._add_terminal(call_id, terminal)
            case _:
                self._engine.change(state.id, content=(*state.content, Text(str(content))))

    def _prepare_output(self, call_id: str, state: CallState) -> None:
        """Show a terminal, or remove the remarks of a permission request: every line would repeat them."""
        if self._appends and Terminal(state.id) not in state.content:
            self._add_terminal(call_id, state.id)
            self._engine.flush()
        else:
            self._engine.change(state.id, content=state.content)

    def _on_finished(self, event: ToolFinished) -> None:
        state = self._calls.pop(event.call_id, None) or new_call(event.call_id, event.name, {}, self._folder)
        self._activities.pop(event.call_id, None)
        self._arguments.pop(event.call_id, None)
        self._with_output.discard(state.id)
        has_terminal = Terminal(state.id) in state.content
        if self.is_replaying and has_terminal:
            self._engine.append(state.id, event.result.text)  # the log has the result, not the live output
        exit_code = exit_code_of(event.details) if has_terminal else None
        fields = final_fields(state, event.result, event.details, self._folder)
        self._engine.finish(state.id, status_of(event.result), exit_code=exit_code, **fields)
        if isinstance(event.details, dict) and isinstance(todos := event.details.get("todos"), list):
            self._engine.flush()
            self._sender.send_plan(todos)

    def _on_subagent(self, event: SubagentStarted | SubagentEvent) -> None:
        """Show the activity of a sub-agent in the call that started it."""
        if event.call_id not in self._calls:
            return
        activity = self._activities.setdefault(event.call_id, SubagentActivity(self._folder))
        if activity.add(event):
            self._engine.change(self.tool_call_id(event.call_id), content=(Text(str(activity)),))

    def _end_open_calls(self, reason: str, status: Status = "failed") -> None:
        self._calls.clear()
        self._arguments.clear()
        self._activities.clear()
        self._with_output.clear()
        self._engine.end_open_calls(reason, status)
