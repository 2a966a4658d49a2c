"""The sub-agents of a session: the steps that their Task calls list, and their calls as calls of their own."""

from __future__ import annotations

from pathlib import Path

from outrider.acp.call_translator import UNFINISHED, CallTranslator
from outrider.acp.subagent_activity import SubagentActivity
from outrider.acp.updates.call_state import Status
from outrider.acp.updates.engine import Engine
from outrider.runtime.events import SubagentEvent, SubagentStarted

_PREFIX = 8
"""Characters of a session id that distinguish the calls of one sub-agent from those of another."""


class Subagents:
    """The sub-agents that run, by the call that started them and by their session."""

    def __init__(self, engine: Engine, folder: Path, *, appends: bool = False) -> None:
        self.is_replaying = False
        self._engine = engine
        self._folder = folder
        self._appends = appends
        self._activities: dict[str, SubagentActivity] = {}
        self._calls: dict[str, CallTranslator] = {}

    def handle(self, event: SubagentStarted | SubagentEvent, parent: str) -> str:
        """Show an event. `parent` is the id of the Task call in the editor. Return its steps if they have changed."""
        activity = self._activities.setdefault(event.call_id, SubagentActivity(self._folder))
        if isinstance(event, SubagentEvent):
            self._translator(event.session, parent).handle_of_subagent(event.event)
        return str(activity) if activity.add(event) else ""

    def _translator(self, session: str, parent: str) -> CallTranslator:
        if session not in self._calls:
            options = {"parent": parent, "prefix": f"{session[:_PREFIX]}/"}
            self._calls[session] = CallTranslator(self._engine, self._folder, appends=self._appends, **options)
            self._calls[session].is_replaying = self.is_replaying
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
        """End all of them."""
        for calls in self._calls.values():
            calls.end(reason, status)
        self._calls.clear()
        self._activities.clear()
