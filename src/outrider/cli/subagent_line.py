"""A sub-agent at work, in one line: who it is, how far it is, what it is doing, what it cost."""

from __future__ import annotations

from pathlib import Path

from outrider.cli.plain import plain
from outrider.coding.toolbox.titles import title
from outrider.conversation.messages import Usage
from outrider.runtime.events import (
    MessageAdded,
    OwnEvent,
    ReplyDiscarded,
    RunFinished,
    SubagentStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
    TurnStarted,
)
from outrider.text import counted, dollars


class SubagentLine:
    """Takes the events of one sub-agent."""

    def __init__(self, started: SubagentStarted, folder: Path | None = None) -> None:
        self.name = plain(started.name)
        self.title = plain(started.title)
        self.calls = 0
        self.usage = Usage()
        self._folder = folder
        self._doing = "begins"
        self._started: set[str] = set()
        self._running: dict[str, str] = {}
        """The calls that are being carried out, and what they are."""

    def show(self, event: OwnEvent) -> None:
        """Take one event."""
        match event:
            case TurnStarted() | ReplyDiscarded():
                self._doing = "waiting"
            case ThinkingDelta():
                self._doing = "thinking"
            case TextDelta():
                self._doing = "writing"
            case ToolStarted(call_id=call_id, name=name, input=input):
                self.calls += 1
                self._started.add(call_id)
                self._running[call_id] = plain(title(name, input, self._folder))
            case ToolFinished(call_id=call_id):
                self._running.pop(call_id, None)
            case MessageAdded(usage=usage) if usage:
                self.usage += usage
                self._doing = "waiting"
            case RunFinished(status=status):
                self._running.clear()
                self._doing = status.replace("_", " ")

    def was_refused(self, event: OwnEvent) -> bool:
        """Whether a call of it ended in an error without having been carried out."""
        return isinstance(event, ToolFinished) and event.result.is_error and event.call_id not in self._started

    @property
    def doing(self) -> str:
        """What it is doing now: the newest of its calls, if it makes any."""
        if not self._running:
            return self._doing
        more = f" and {len(self._running) - 1} more" if len(self._running) > 1 else ""
        return f"{list(self._running.values())[-1]}{more}"

    def __str__(self) -> str:
        parts = (self.name, counted(self.calls, "call"), dollars(self.usage.cost), self.doing)
        return " · ".join(part for part in parts if part)
