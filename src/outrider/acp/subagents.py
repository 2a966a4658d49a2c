"""The sub-agents of a session: the steps that their Task calls list, and their calls as calls of their own.

The Task call of a sub-agent in the background ends at once. Its steps are in a call with the id of its session, which
is open while it works, also after the turn.
"""

from __future__ import annotations

from pathlib import Path

from outrider.acp.call_translator import UNFINISHED, CallTranslator
from outrider.acp.tool_calls import single_line
from outrider.acp.updates.call_state import Status, Text
from outrider.acp.updates.engine import Engine
from outrider.coding import sentences
from outrider.coding.toolbox.titles import title
from outrider.conversation.messages import TextBlock, ToolResultBlock
from outrider.runtime import events

SHOWN_LINES, MAX_LINE = 20, 200
"""How many of the newest lines are shown, and the characters of each."""
CLOSED = "The session was closed while the sub-agent worked."
_REMARKS = "! "
"""How lines begin that are about no call."""
KEPT_LINES = 200
"""How many lines are kept, to mark running calls as finished."""


class SubagentActivity:
    """The lines of one Task call."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: dict[str, str] = {}
        """The name of each sub-agent, by session."""
        self._lines: dict[str, str] = {}
        """The newest lines, by session and call."""
        self._dropped = 0
        self._notices = 0

    def add(self, event: events.SubagentStarted | events.SubagentEvent) -> bool:
        """Add an event. Return whether the text has changed."""
        if isinstance(event, events.SubagentStarted):
            self._names[event.session] = event.name
            return False
        return self._add(event)

    def _add(self, outer: events.SubagentEvent) -> bool:
        event, session = outer.event, outer.session
        match event:
            case events.ToolStarted(call_id=call_id, name=name, input=input):
                self._lines[f"{session}/{call_id}"] = f"… {_shorten(title(name, input, self._folder))}"
            case events.ToolFinished(call_id=call_id, name=name, result=result):
                key = f"{session}/{call_id}"
                call_title = self._lines.get(key, f"… {name}").removeprefix("… ")
                self._lines[key] = f"{'✗' if result.is_error else '✓'} {call_title}"
            case events.Notice(text=text) | events.ModelSwitched(text=text):
                self._notices += 1
                self._lines[f"{session}/notice{self._notices}"] = f"! {_shorten(text)}"
            case events.Compacted():
                self._notices += 1
                self._lines[f"{session}/notice{self._notices}"] = f"! {sentences.shortened(event)}"
            case events.Retrying(text=text):
                self._lines.pop(f"{session}/retry", None)
                self._lines[f"{session}/retry"] = f"! {_shorten(text)}"
            case _:
                return False
        while len(self._lines) > KEPT_LINES:
            dropped = self._lines.pop(next(iter(self._lines)))
            self._dropped += not dropped.startswith(_REMARKS)
        return True

    def __str__(self) -> str:
        return self._text(list(self._lines.values()))

    @property
    def steps(self) -> str:
        """The text for the call when it has ended: the calls alone, as the log has them; empty if there were none."""
        calls = [line for line in self._lines.values() if not line.startswith(_REMARKS)]
        return self._text(calls) if calls else ""

    def _text(self, lines: list[str]) -> str:
        hidden = max(0, len(lines) - SHOWN_LINES) + self._dropped
        header = [f"({hidden} earlier calls)"] if hidden else []
        return "\n".join([", ".join(self._names.values()), *header, *lines[-SHOWN_LINES:]])


def _shorten(text: str) -> str:
    return single_line(text, MAX_LINE)


_PREFIX = 8
"""Characters of a session id that distinguish the calls of one sub-agent from those of another."""


class Subagents:
    """The sub-agents that run, by the call that shows their steps and by their session."""

    def __init__(self, engine: Engine, folder: Path, *, appends: bool = False) -> None:
        self._is_replaying = False
        self._engine = engine
        self._folder = folder
        self._appends = appends
        self._activities: dict[str, SubagentActivity] = {}
        self._calls: dict[str, CallTranslator] = {}
        self._behind = CallTranslator(engine, folder)
        """The calls of those in the background, by session."""

    @property
    def is_replaying(self) -> bool:
        """Whether a stored session is replayed."""
        return self._is_replaying

    @is_replaying.setter
    def is_replaying(self, is_replaying: bool) -> None:
        self._is_replaying = is_replaying
        for calls in self._calls.values():  # one in the background may go on after it
            calls.is_replaying = is_replaying

    def __contains__(self, id: object) -> bool:
        """Whether a call is one of a sub-agent that works in the background, or shows its steps."""
        behind = self._behind.ids
        return id in behind or any(id in calls.ids for calls in self._calls.values() if calls.parent in behind)

    def handle(self, event: events.SubagentStarted | events.SubagentEvent, parent: str) -> str:
        """Show an event. `parent` is the id of the Task call in the editor. Return its steps if they have changed."""
        return self._handle(event, event.call_id, parent)

    def _handle(self, event: events.SubagentStarted | events.SubagentEvent, key: str, parent: str) -> str:
        activity = self._activities.setdefault(key, SubagentActivity(self._folder))
        if isinstance(event, events.SubagentEvent):
            self._translator(event.session, parent).handle_of_subagent(event.event)
        return str(activity) if activity.add(event) else ""

    def is_in_background(self, event: events.SubagentStarted | events.SubagentEvent) -> bool:
        """Whether an event is of one that works in the background."""
        return event.background if isinstance(event, events.SubagentStarted) else event.session in self._behind

    def handle_in_background(self, event: events.SubagentStarted | events.SubagentEvent) -> None:
        """Show an event of one that works in the background."""
        session = event.session
        if isinstance(event, events.SubagentStarted):
            given = {"description": event.title, "subagent_type": event.name, "run_in_background": True}
            self._behind.handle(events.ToolStarted(session, "Task", given, "idempotent"))
        if steps := self._handle(event, session, self._behind.tool_call_id(session)):
            self._behind.change(session, (Text(steps),))

    def finish_in_background(self, event: events.SubagentFinished) -> None:
        """End the call of one that has ended."""
        session = event.session
        if session not in self._behind:  # it had not begun
            return
        steps = self.finish(session, self._behind.tool_call_id(session))
        words = sentences.subagent_ended(event)
        result = ToolResultBlock(session, (TextBlock(words),), is_error=event.status != "done")
        self._behind.finish(events.ToolFinished(session, "Task", result), (Text(steps),) if steps else ())

    def _translator(self, session: str, parent: str) -> CallTranslator:
        if session not in self._calls:
            options = {"parent": parent, "prefix": f"{session[:_PREFIX]}/"}
            self._calls[session] = CallTranslator(self._engine, self._folder, appends=self._appends, **options)
            self._calls[session].is_replaying = self._is_replaying
        return self._calls[session]

    def tool_call_id(self, call_id: str) -> str:
        """Return the id by which the editor knows an open call, or ""."""
        return next((each.tool_call_id(call_id) for each in self._calls.values() if call_id in each), "")

    def finish(self, call_id: str, parent: str) -> str:
        """End the sub-agents of a call. Return their steps."""
        for session, calls in list(self._calls.items()):
            if calls.parent == parent:
                self._calls.pop(session).end(UNFINISHED)
        activity = self._activities.pop(call_id, None)
        return activity.steps if activity else ""

    def end(self, reason: str, status: Status) -> None:
        """End those that a call waits for."""
        for session in [each for each in self._calls if each not in self._behind]:
            self._calls.pop(session).end(reason, status)
        self._activities = {key: each for key, each in self._activities.items() if key in self._behind}

    def close(self) -> None:
        """End all of them, with the session."""
        self._behind.end(CLOSED)
        self.end(CLOSED, "failed")
