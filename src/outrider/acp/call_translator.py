"""Translates the events of tool calls into changes of the update engine, for a session or one of its sub-agents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from outrider.acp.tool_calls import exit_code_of, final_fields, kind_of, new_call, partial_fields, status_of
from outrider.acp.updates.call_state import CallState, Diff, Item, Status, Terminal, Text
from outrider.acp.updates.engine import Engine
from outrider.conversation.json_text import GrowingObject
from outrider.conversation.messages import TextBlock, ToolResultBlock, ToolUseBlock
from outrider.runtime import events

UNFINISHED = "The call did not run: the turn ended first."
SUBAGENT_RESULT = 1_000
"""Characters of a result that are shown of a sub-agent's call: the sub-agent reads all of it, the user seldom."""


class CallTranslator:
    """The calls of one session, with the ids by which the editor knows them."""

    def __init__(
        self, engine: Engine, folder: Path, *, appends: bool = False, parent: str = "", prefix: str = ""
    ) -> None:
        """`appends`: the output of a command is appended to a terminal in its call.

        The calls of a sub-agent have a `parent`, the call that started it, and ids with a `prefix`.
        """
        self.parent = parent
        self.is_replaying = False
        """Whether a stored session is replayed: then its files may be other ones by now."""
        self._engine = engine
        self._folder = folder
        self._appends = appends
        self._prefix = prefix
        self._calls: dict[str, CallState] = {}
        """The open calls as they were announced."""
        self._uses: dict[str, ToolUseBlock] = {}
        self._arguments: dict[str, GrowingObject] = {}
        self._with_output: set[str] = set()
        """The ids of calls whose output is being shown."""
        self._started: set[str] = set()
        """The calls whose tool runs."""

    def __contains__(self, call_id: str) -> bool:
        return call_id in self._calls

    @property
    def ids(self) -> list[str]:
        """The ids by which the editor knows the open calls."""
        return [state.id for state in self._calls.values()]

    def tool_call_id(self, call_id: str) -> str:
        """Return the id by which the editor knows a call."""
        return self._calls[call_id].id if call_id in self._calls else f"{self._prefix}{call_id}"

    def handle_of_subagent(self, event: events.Event) -> None:
        """Show an event of a sub-agent, if it is about a call."""
        match event:
            case events.MessageAdded(message=message) if message.role == "assistant":
                self.announce_all(message.tool_calls)
            case events.RunFinished(status=status):
                self.end(UNFINISHED, "cancelled" if status == "cancelled" else "failed")
            case events.ToolCallDelta():  # what a sub-agent is about to do is not worth an update
                pass
            case _:
                self.handle(event)

    def handle(self, event: events.Event) -> None:
        match event:
            case events.ToolCallDelta():
                self._on_arguments(event)
            case events.ToolStarted():
                self._on_started(event)
            case events.ToolProgress(call_id=call_id, content=content):
                self.show_progress(call_id, content)
            case events.ToolFinished():
                self.finish(event)
            case events.ServerToolStarted(call_id=call_id, name=name, input=input):
                self.announce(ToolUseBlock(call_id, name, input))
                self._engine.change(self.tool_call_id(call_id), status="in_progress")
            case events.ServerToolFinished(call_id=call_id, name=name, text=text, is_error=is_error):
                content = (TextBlock(text),) if text else ()
                self.finish(events.ToolFinished(call_id, name, ToolResultBlock(call_id, content, is_error)))

    def announce(self, use: ToolUseBlock) -> None:
        """Announce a call with all its arguments, or complete the arguments of one that is announced already."""
        if use.id in self._calls and use.id not in self._arguments:
            return
        self._arguments.pop(use.id, None)
        shown_id, reads_files = self.tool_call_id(use.id), not self.is_replaying
        self._uses[use.id] = use
        self._announce(use.id, new_call(shown_id, use.name, use.input, self._folder, reads_files=reads_files))

    def announce_all(self, uses: Sequence[ToolUseBlock]) -> None:
        self._match_renamed(uses)
        for use in uses:
            self.announce(use)

    def _announce(self, call_id: str, state: CallState) -> None:
        """Announce a call. If a call with its id has ended, as in a discarded reply, number the new one."""
        number = 1
        state = self._with_terminal(replace(state, parent=self.parent))
        while not self._engine.announce(state):
            number += 1
            state = self._with_terminal(replace(state, id=f"{self._prefix}{call_id}-{number}"))
        self._calls[call_id] = state

    def _with_terminal(self, state: CallState) -> CallState:
        """Add the terminal of a command. Editors that append output learn of it with the announcement alone."""
        if not self._appends or state.name != "Bash":
            return state
        return replace(
            state, content=(*(each for each in state.content if not isinstance(each, Terminal)), Terminal(state.id))
        )

    def change(self, call_id: str, content: tuple[Item, ...]) -> None:
        """Replace the content of an open call."""
        self._engine.change(self.tool_call_id(call_id), content=content)

    def _on_arguments(self, delta: events.ToolCallDelta) -> None:
        call_id, name = delta.call_id, delta.name
        if call_id not in self._arguments:
            # Incomplete values are left out: with half a path, an editor would jump from file to file.
            self._arguments[call_id] = GrowingObject(unfinished=False, step=64, updates=2)
            self._announce(call_id, CallState(self._prefix + call_id, name, name, kind_of(name)))
        if (known := self._arguments[call_id].add(delta.arguments)) is not None:
            self._engine.change(self.tool_call_id(call_id), **partial_fields(name, known, self._folder))

    def _match_renamed(self, uses: Sequence[ToolUseBlock]) -> None:
        """Match streamed calls to the final ones. Calls with duplicate ids get new ids when the reply is complete."""
        streamed = [each for each in self._arguments if each not in {use.id for use in uses}]
        renamed = [use.id for use in uses if use.id not in self._arguments]
        for old, new in zip(streamed, renamed, strict=False):
            self._arguments[new] = self._arguments.pop(old)
            self._calls[new] = self._calls.pop(old)

    def _on_started(self, event: events.ToolStarted) -> None:
        self.announce(ToolUseBlock(event.call_id, event.name, event.input))
        shown_id = self.tool_call_id(event.call_id)
        self._started.add(event.call_id)
        if not self._appends or event.name != "Bash":
            self._engine.change(shown_id, status="in_progress")
            return
        # A permission request has shown other content. Even a slow editor must know the terminal before its output.
        self._engine.change(shown_id, status="in_progress", content=self._calls[event.call_id].content)
        self._engine.flush()

    def _add_terminal(self, call_id: str, terminal: str) -> None:
        state = self._calls[call_id]
        self._calls[call_id] = state = replace(state, content=(*state.content, Terminal(terminal)))
        self._engine.change(state.id, content=state.content)

    def show_progress(self, call_id: str, content: Any) -> None:
        """Show what a running call says: more output, its terminal, or a text."""
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

    def finish(self, event: events.ToolFinished, before: tuple[Item, ...] = ()) -> None:
        """End a call with its result, which follows the items `before` it."""
        unknown = new_call(self.tool_call_id(event.call_id), event.name, {}, self._folder)
        state = self._calls.pop(event.call_id, unknown)
        if event.call_id not in self._started:  # it was denied, or its arguments are invalid: its terminal is empty
            state = replace(state, content=tuple(each for each in state.content if not isinstance(each, Terminal)))
        self._started.discard(event.call_id)
        use = self._uses.pop(event.call_id, None)
        if use and event.result.is_error and any(isinstance(item, Diff) for item in state.content):
            # It has changed nothing, and the log does not know what the file was: show what the call asked for.
            asked = new_call(state.id, use.name, use.input, self._folder, reads_files=False)
            state = replace(state, content=asked.content)
            self._engine.change(state.id, locations=asked.locations)
        self._arguments.pop(event.call_id, None)
        self._with_output.discard(state.id)
        has_terminal = Terminal(state.id) in state.content
        if self.is_replaying and has_terminal:
            from outrider.coding.toolbox.shell.outcomes import printed_by  # only a loaded session needs it

            self._engine.append(state.id, printed_by(event.result, event.details))  # the log has no live output
        exit_code = exit_code_of(event.details) if has_terminal else None
        limit = SUBAGENT_RESULT if self.parent else None
        fields = final_fields(state, event.result, event.details, self._folder, limit=limit)
        fields["content"] = (*before, *fields["content"])
        self._engine.finish(state.id, status_of(event.result), exit_code=exit_code, **fields)

    def end(self, reason: str, status: Status = "failed") -> None:
        """End every open call with a reason."""
        self._engine.end_open_calls(reason, status, self.ids)
        self._calls.clear()
        self._uses.clear()
        self._arguments.clear()
        self._with_output.clear()
        self._started.clear()
