"""The steps of a running sub-agent, as the chat shows them while it works."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from outrider.cli.chat.markdown import rendered
from outrider.cli.chat.tool_call_lines import RunningCall, finished_call_lines
from outrider.cli.styles import BOLD, CYAN, DIM, fit, hanging, styled
from outrider.cli.subagent_line import SubagentLine
from outrider.coding.toolbox.titles import title
from outrider.runtime import events
from outrider.text.visible import safe_line, safe_lines

MOST_STEPS = 200
"""Steps that are kept; the log has all."""
OPEN_CHARACTERS = 4_000
"""Characters of the text that is being written."""
PROMPT_LINES = 6


class SubagentTranscript(SubagentLine):
    """What a sub-agent has said and done so far."""

    def __init__(self, started: events.SubagentStarted, folder: Path | None = None) -> None:
        super().__init__(started, folder)
        self._steps: list[tuple[str, events.ToolFinished | None]] = []
        """Texts, and results of calls with their titles."""
        self._drawn: list[list[str]] = []
        """The lines of the steps, for the width with which they were drawn last."""
        self._width = 0
        self._calls: dict[str, RunningCall] = {}
        self._open = ""

    def show(self, event: events.OwnEvent) -> None:
        match event:
            case events.TextDelta(text=text):
                self._open = (self._open + text)[-OPEN_CHARACTERS:]
            case events.ReplyDiscarded():
                self._open = ""
            case events.MessageAdded(message=message) if message.text.strip():
                self._add(message.text if message.role == "assistant" else f"› {message.text}")
            case events.ToolStarted(call_id=call_id, name=name, input=input):
                self._calls[call_id] = RunningCall(safe_line(title(name, input, self._folder)))
            case events.ToolProgress(call_id=call_id, content=content) if call_id in self._calls:
                self._calls[call_id].show(content)
            case events.ToolFinished(call_id=call_id, name=name):
                self._calls.pop(call_id, None)
                self._add(self._running.get(call_id, safe_line(name)), event)
        super().show(event)

    def _add(self, text: str, finished: events.ToolFinished | None = None) -> None:
        self._steps.append((text, finished))
        self._open = self._open if finished else ""
        if len(self._steps) > MOST_STEPS:
            del self._steps[0], self._drawn[:1]

    def lines(self, width: int, height: int) -> Sequence[str]:
        """Return the newest lines, below a line that says whose they are, and above the keys."""
        if width != self._width:
            self._width, self._drawn = width, []
        for text, finished in self._steps[len(self._drawn) :]:
            self._drawn.append(list(_step_lines(text, finished, width)))
        body = [line for drawn in self._drawn for line in drawn]
        body += ["", *rendered(self._open, width, is_live=True), ""] if self._open else []
        body += [line for call in self._calls.values() for line in call.lines(width)] or [
            styled(f"· {fit(self.doing, width - 2)}", DIM)
        ]
        body = [line for at, line in enumerate(body) if line or (at and body[at - 1])]  # one blank line at a time
        head = styled(fit(f"{self.name}: {self.title}", width), BOLD, CYAN)
        keys = styled(fit("Esc back    ← → other sub-agents    Ctrl-O calls in full", width), DIM)
        return [head, *body[-max(1, height - 2) :], keys]


def _step_lines(text: str, finished: events.ToolFinished | None, width: int) -> Sequence[str]:
    if finished:
        return list(finished_call_lines(finished, text, width))
    if not text.startswith("› "):
        return ["", *rendered(text, width, is_live=True), ""]
    lines = [part for line in safe_lines(text[2:]).split("\n") for part in hanging("› ", line, width)]
    more = ["  …"] if len(lines) > PROMPT_LINES else []
    return [*(styled(line, DIM) for line in lines[:PROMPT_LINES] + more), ""]
