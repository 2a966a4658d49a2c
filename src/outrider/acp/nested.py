"""What a sub-agent does, inside the call that sent it out: its calls, one a line."""

from __future__ import annotations

from pathlib import Path

from outrider.events import Notice, SubagentEvent, SubagentStarted, ToolFinished, ToolStarted
from outrider.toolbox.titles import title

SHOWN = 20
"""Calls that are shown; of more, the newest."""


class Nested:
    """The activity below one call."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: dict[str, str] = {}
        """Who was sent out, by session."""
        self._lines: dict[str, str] = {}
        """A line for each call, by session and call."""

    def take(self, event: SubagentStarted | SubagentEvent) -> bool:
        """Whether there is something new to show."""
        if isinstance(event, SubagentStarted):
            self._names[event.session] = event.name
            return False
        return self._take(event)

    def _take(self, nested: SubagentEvent) -> bool:
        event, session = nested.event, nested.session
        match event:
            case ToolStarted(call_id=call_id, name=name, input=input):
                self._lines[f"{session}/{call_id}"] = f"… {title(name, input, self._folder)}"
            case ToolFinished(call_id=call_id, name=name, result=result):
                key = f"{session}/{call_id}"
                about = self._lines.get(key, f"… {name}").removeprefix("… ")
                self._lines[key] = f"{'✗' if result.is_error else '✓'} {about}"
            case Notice(text=text):
                self._lines[f"{session}/notice{len(self._lines)}"] = f"! {text}"
            case _:
                return False
        return True

    def __str__(self) -> str:
        lines = list(self._lines.values())
        above = [f"({len(lines) - SHOWN} calls before these)"] if len(lines) > SHOWN else []
        return "\n".join([", ".join(self._names.values()), *above, *lines[-SHOWN:]])
