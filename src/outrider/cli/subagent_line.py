"""A running sub-agent in one line: its name, number of calls, cost and current activity."""

from __future__ import annotations

from pathlib import Path

from outrider.coding import sentences
from outrider.coding.toolbox.titles import title
from outrider.conversation.usage import Usage
from outrider.runtime import events
from outrider.text import counted, dollars
from outrider.text.visible import safe_line


class SubagentLine:
    """The state of one sub-agent, updated by its events."""

    def __init__(self, started: events.SubagentStarted, folder: Path | None = None) -> None:
        self.name = safe_line(started.name)
        self.title = safe_line(started.title)
        self.calls = 0
        self.usage = Usage()
        self._folder = folder
        self._doing = "starting"
        self._started: set[str] = set()
        self._running: dict[str, str] = {}
        """Titles of the running calls, by call id."""

    def show(self, event: events.OwnEvent) -> None:
        match event:
            case events.TurnStarted() | events.ReplyDiscarded():
                self._doing = "waiting"
            case events.Retrying(delay=delay, reason=reason):
                self._doing = safe_line(f"retrying in {delay:.0f} s: {reason}")
            case events.CompactionStarted(tokens=tokens):
                self._doing = sentences.compacting(tokens).lower()
            case events.ThinkingDelta():
                self._doing = "thinking"
            case events.TextDelta():
                self._doing = "writing"
            case events.ToolStarted(call_id=call_id, name=name, input=input):
                self.calls += 1
                self._started.add(call_id)
                self._running[call_id] = safe_line(title(name, input, self._folder))
            case events.ToolFinished(call_id=call_id):
                self._running.pop(call_id, None)
            case events.MessageAdded(usage=usage) | events.Compacted(usage=usage) if usage:
                self.usage += usage
                self._doing = "waiting"
            case events.RunFinished(status=status):
                self._running.clear()
                self._doing = status.replace("_", " ")

    def was_denied(self, event: events.OwnEvent) -> bool:
        """Return whether the event ends a call with an error before the call had started."""
        return isinstance(event, events.ToolFinished) and event.result.is_error and event.call_id not in self._started

    @property
    def doing(self) -> str:
        """Return the current activity: the newest running call, if any."""
        if not self._running:
            return self._doing
        more = f" and {len(self._running) - 1} more" if len(self._running) > 1 else ""
        return f"{list(self._running.values())[-1]}{more}"

    def __str__(self) -> str:
        parts = (self.name, counted(self.calls, "call"), dollars(self.usage.cost), self.doing)
        return " · ".join(part for part in parts if part)
