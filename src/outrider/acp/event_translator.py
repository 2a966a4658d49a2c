"""What a session does, as an editor sees it: events in, updates out. A session that is loaded goes the same way."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec.structs import replace

from outrider.acp.arguments import Arguments
from outrider.acp.calls import arriving, exit_code_of, kind_of, new_call, outcome, status_of
from outrider.acp.nested import Nested
from outrider.acp.updates.engine import Engine
from outrider.acp.updates.state import CallState, Status, Terminal, Text
from outrider.conversation.messages import Message, ToolUseBlock, Usage
from outrider.runtime.events import (
    Event,
    MessageAdded,
    Notice,
    ReplyDiscarded,
    RunFinished,
    SubagentEvent,
    SubagentStarted,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)

LEFT_OPEN = "It was not carried out: the turn ended before."


class UpdateSink(Protocol):
    """How an editor is told things, in the words of its version of the protocol."""

    def words(self, text: str) -> None:
        """More of what the model says."""

    def thoughts(self, text: str) -> None:
        """More of what the model thinks."""

    def said(self, message: Message) -> None:
        """What the person said, when a session is loaded."""

    def notice(self, text: str) -> None:
        """Something to know."""

    def plan(self, todos: list[Any]) -> None:
        """The plan has changed."""

    def usage(self, usage: Usage) -> None:
        """A reply has used this."""


class EventTranslator:
    """Takes the events of one session. Text is told at once; calls go through the engine, which is flushed first."""

    def __init__(self, engine: Engine, telling: UpdateSink, folder: Path, *, appends: bool = False) -> None:
        self._engine = engine
        self._appends = appends
        """Whether the output of commands is appended to a terminal that stands in their calls."""
        self._telling = telling
        self._folder = folder
        self._calls: dict[str, CallState] = {}
        """The calls that are not final yet, as they were announced, with the ids by which the editor knows them."""
        self._arguments: dict[str, Arguments] = {}
        self._nested: dict[str, Nested] = {}
        self._printing: set[str] = set()
        """The calls whose output has begun to be shown."""
        self.echoes = False
        """Whether the person's own words are told as well: an editor that loads a session has not heard them."""

    def show(self, event: Event) -> None:
        """Take one event."""
        match event:
            case TextDelta(text=text):
                self._engine.flush()
                self._telling.words(text)
            case ThinkingDelta(text=text):
                self._engine.flush()
                self._telling.thoughts(text)
            case ToolCallDelta():
                self._arrives(event)
            case MessageAdded():
                self._added(event)
            case ToolStarted() | ToolProgress() | ToolFinished() | SubagentStarted() | SubagentEvent():
                self._in_call(event)
            case ReplyDiscarded(reason=reason):
                self._end_open_calls(reason)
                self._telling.notice(f"{reason} (What was shown of this reply does not count.)")
            case Notice(text=text):
                self._engine.flush()
                self._telling.notice(text)
            case RunFinished(status=status):
                self.end("cancelled" if status == "cancelled" else "failed")

    def _in_call(self, event: ToolStarted | ToolProgress | ToolFinished | SubagentStarted | SubagentEvent) -> None:
        match event:
            case ToolStarted():
                self._started(event)
            case ToolProgress(call_id=call_id, content=content):
                self._progressed(call_id, content)
            case ToolFinished():
                self._finished(event)
            case SubagentStarted() | SubagentEvent():
                self._from_subagent(event)

    def announce(self, use: ToolUseBlock) -> None:
        """Have the editor know of a call, or of all its arguments."""
        if use.id in self._calls and use.id not in self._arguments:
            return
        self._arguments.pop(use.id, None)
        self._announce(use.id, new_call(self.shown_id(use.id), use.name, use.input, self._folder))

    def shown_id(self, call_id: str) -> str:
        """The id by which the editor knows a call."""
        return self._calls[call_id].id if call_id in self._calls else call_id

    def _announce(self, call_id: str, state: CallState) -> None:
        """Under another id where the editor has seen the end of this one: that of a reply which does not count, say."""
        number = 1
        while not self._engine.announce(state):
            number += 1
            state = replace(state, id=f"{call_id}-{number}")
        self._calls[call_id] = state

    def end(self, status: Status = "failed") -> None:
        """The turn is over: nothing stays open, nothing waits."""
        self._end_open_calls(LEFT_OPEN, status)
        self._engine.flush()

    def _arrives(self, delta: ToolCallDelta) -> None:
        call_id, name = delta.call_id, delta.name
        if call_id not in self._arguments:
            self._arguments[call_id] = Arguments()
            self._announce(call_id, CallState(call_id, name, name, kind_of(name)))
        if (known := self._arguments[call_id].take(delta.arguments)) is not None:
            self._engine.change(self.shown_id(call_id), **arriving(name, known, self._folder))

    def _added(self, event: MessageAdded) -> None:
        message = event.message
        if message.role == "assistant":
            self._rename(message.tool_calls)
            for use in message.tool_calls:
                self.announce(use)
        elif self.echoes:
            self._engine.flush()
            self._telling.said(message)
        if event.usage:
            self._telling.usage(event.usage)

    def _rename(self, uses: Sequence[ToolUseBlock]) -> None:
        """Calls whose ids were used before have got others when all of the reply was there."""
        arrived = [each for each in self._arguments if each not in {use.id for use in uses}]
        renamed = [use.id for use in uses if use.id not in self._arguments]
        for before, now in zip(arrived, renamed, strict=False):
            self._arguments[now] = self._arguments.pop(before)
            self._calls[now] = self._calls.pop(before)

    def _started(self, event: ToolStarted) -> None:
        self.announce(ToolUseBlock(event.call_id, event.name, event.input))
        shown = self.shown_id(event.call_id)
        has_terminal = self._appends and event.name == "Bash"
        if has_terminal:
            self._show_terminal(event.call_id, shown)
        self._engine.change(shown, status="in_progress")
        if has_terminal:
            self._engine.flush()  # a slow editor, too, has to know the terminal before anything is printed to it

    def _show_terminal(self, call_id: str, name: str) -> None:
        state = self._calls[call_id]
        self._calls[call_id] = shown = replace(state, content=(*state.content, Terminal(name)))
        self._engine.change(shown.id, content=shown.content)

    def _progressed(self, call_id: str, content: Any) -> None:
        state = self._calls.get(call_id)
        if state is None:
            return
        match content:
            case {"output": str(text)}:
                if self._appends and Terminal(state.id) not in state.content:
                    self._show_terminal(call_id, state.id)
                    self._engine.flush()
                self._print(state, text)
            case {"terminal": str(name)}:
                self._show_terminal(call_id, name)
            case _:
                self._engine.change(state.id, content=(*state.content, Text(str(content))))

    def _print(self, state: CallState, text: str) -> None:
        """Show output. What was said for a question about the call goes: it would be sent again with each line."""
        if state.id not in self._printing:
            self._printing.add(state.id)
            self._engine.change(state.id, content=state.content)
        self._engine.append(state.id, text)

    def _finished(self, event: ToolFinished) -> None:
        state = self._calls.pop(event.call_id, None) or new_call(event.call_id, event.name, {}, self._folder)
        self._nested.pop(event.call_id, None)
        self._arguments.pop(event.call_id, None)
        self._printing.discard(state.id)
        if self.echoes and Terminal(state.id) in state.content:
            self._engine.append(state.id, event.result.text)  # what it printed was not kept beside its result
        fields = outcome(state, event.result, event.details)
        code = exit_code_of(event.details) if Terminal(state.id) in state.content else None
        self._engine.finish(state.id, status_of(event.result), exit_code=code, **fields)
        if isinstance(event.details, dict) and isinstance(todos := event.details.get("todos"), list):
            self._engine.flush()
            self._telling.plan(todos)

    def _from_subagent(self, event: SubagentStarted | SubagentEvent) -> None:
        """What a sub-agent does stands inside the call that sent it out."""
        if event.call_id not in self._calls:
            return
        nested = self._nested.setdefault(event.call_id, Nested(self._folder))
        if nested.take(event):
            self._engine.change(self.shown_id(event.call_id), content=(Text(str(nested)),))

    def _end_open_calls(self, reason: str, status: Status = "failed") -> None:
        self._calls.clear()
        self._arguments.clear()
        self._nested.clear()
        self._printing.clear()
        self._engine.fail_open(reason, status)
