"""The runs of a session as a notebook shows them. It is imported when a `LiveView` observes a session."""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any

from outrider.conversation.html import MARKS, call_summary, folded, markdown, plain, preformatted, usage_line
from outrider.runtime import events

INTERVAL = 0.1
"""Seconds between two updates of the page, while text streams."""
MOST_LINES = 100
LONGEST_PROGRESS = 2_000


class RunView:
    """The lines of one run after the other."""

    def __init__(self) -> None:
        self._handle: Any = None
        """What IPython returns for what is shown, so that it can be replaced."""
        self._updated = 0.0
        self._clear()

    def _clear(self) -> None:
        self._lines: dict[str, str] = {}
        self._inputs: dict[str, dict[str, Any]] = {}
        self._text = ""
        self._end = ""

    def __call__(self, event: events.Event) -> None:
        self._take(event)
        is_over = isinstance(event, events.RunFinished)
        now = time.monotonic()
        if is_over or (now - self._updated >= INTERVAL and (self._lines or self._text)):
            self._updated = now
            self._show()
        if is_over:  # the next run is shown below
            self._handle = None
            self._clear()

    def _take(self, event: events.Event) -> None:
        match event:
            case events.TurnStarted():
                self._text = ""
            case events.TextDelta():
                self._text += event.text
            case events.ReplyDiscarded():
                self._text = ""
            case events.ToolStarted():
                self._inputs[event.call_id] = event.input
                self._add(event.call_id, call_summary(event.name, event.input, "⏳"))
            case events.ToolProgress():
                self._add(event.call_id + " progress", preformatted(str(event.content)[-LONGEST_PROGRESS:]))
            case events.ToolFinished():
                self._finish(event)
            case events.SubagentStarted():
                self._add(event.session, f"↳ <b>{plain(event.name)}</b> {plain(event.title)}")
            case events.Notice() | events.Retrying():
                self._add(f"notice {len(self._lines)}", f"ⓘ {plain(event.text)}")
            case events.RunFinished():
                self._text = event.text
                mark = MARKS.get(event.status, "⚠")
                self._end = f"<p>{mark} {plain(event.status)}, {usage_line(event.usage)} {plain(event.error)}</p>"

    def _add(self, key: str, line: str) -> None:
        self._lines[key] = line
        while len(self._lines) > MOST_LINES:
            del self._lines[next(iter(self._lines))]

    def _finish(self, event: events.ToolFinished) -> None:
        self._lines.pop(event.call_id + " progress", None)
        mark = "❌" if event.result.is_error else "✅"
        summary = call_summary(event.name, self._inputs.pop(event.call_id, {}), mark)
        self._add(event.call_id, folded(summary, preformatted(event.result.text)))

    def _show(self) -> None:
        page: Any = import_module("IPython.display")
        lines = "".join(f"<div>{line}</div>" for line in self._lines.values())
        shown = page.HTML(lines + markdown(self._text) + self._end)
        if self._handle is None:
            self._handle = page.display(shown, display_id=True)
        else:
            self._handle.update(shown)
