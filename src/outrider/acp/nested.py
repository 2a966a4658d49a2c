"""What a sub-agent does, inside the call that sent it out: its calls, one a line."""

from __future__ import annotations

from pathlib import Path

from outrider.acp.calls import on_one_line
from outrider.coding.toolbox.titles import title
from outrider.runtime.events import Notice, SubagentEvent, SubagentStarted, ToolFinished, ToolStarted

SHOWN, LONGEST = 20, 200
"""Calls that are shown, of more the newest; and characters of each."""


KEPT = 200
"""Calls that are remembered: of those that still run, how they end."""


class Nested:
    """The activity below one call."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: dict[str, str] = {}
        """Who was sent out, by session."""
        self._lines: dict[str, str] = {}
        """A line for each call, by session and call; the newest of them."""
        self._gone = 0
        self._count = 0

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
                self._lines[f"{session}/{call_id}"] = f"… {_short(title(name, input, self._folder))}"
            case ToolFinished(call_id=call_id, name=name, result=result):
                key = f"{session}/{call_id}"
                about = self._lines.get(key, f"… {name}").removeprefix("… ")
                self._lines[key] = f"{'✗' if result.is_error else '✓'} {about}"
            case Notice(text=text):
                self._count += 1
                self._lines[f"{session}/notice{self._count}"] = f"! {_short(text)}"
            case _:
                return False
        while len(self._lines) > KEPT:
            self._lines.pop(next(iter(self._lines)))
            self._gone += 1
        return True

    def __str__(self) -> str:
        lines = list(self._lines.values())
        before = max(0, len(lines) - SHOWN) + self._gone
        above = [f"({before} calls before these)"] if before else []
        return "\n".join([", ".join(self._names.values()), *above, *lines[-SHOWN:]])


def _short(text: str) -> str:
    return on_one_line(text, LONGEST)
