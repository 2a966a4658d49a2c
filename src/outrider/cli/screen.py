"""Events as a person watches them in a terminal: text as it comes, one line a call, kept up to date in place."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import Any, TextIO

from outrider.cli.plain import plain, plain_lines
from outrider.cli.printed import printed_lines
from outrider.cli.region import Region
from outrider.cli.styles import BOLD, CYAN, DIM, GREEN, RED, columns, fit, styled
from outrider.cli.subagent_line import SubagentLine
from outrider.coding.toolbox import ALL_NAMES
from outrider.coding.toolbox.titles import title
from outrider.conversation.messages import ToolResultBlock
from outrider.runtime.events import (
    Event,
    MessageAdded,
    Notice,
    ReplyDiscarded,
    RunFinished,
    SubagentEvent,
    SubagentStarted,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from outrider.text import counted, human_size

LONGEST, LONGEST_REFUSAL, LONGEST_STATE = 120, 300, 60
"""Characters of a call, of why it was not run, and of what a sub-agent is doing."""


class Screen:
    """Writes events to a stream; colours and moving lines only where it is a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self.live = stream.isatty()
        self._stream = stream
        self._region = Region(stream, self._size)
        self._calls: dict[str, str] = {}
        """The calls that were begun since something else was said, and what to call them."""
        self._lines: dict[str, str] = {}
        """Their lines, which stand at the bottom of the screen and change."""
        self._subagents: dict[str, SubagentLine] = {}
        """Those who were sent out, by their sessions."""

    def show(self, event: Event) -> None:
        """Show one event."""
        match event:
            case TextDelta(text=text):
                if self._settle():
                    self._write("\n")
                self._write(plain_lines(text))
            case MessageAdded(message=message) if message.role == "assistant":
                self._settle()
                self._write("\n")
            case ToolStarted(call_id=call_id, name=name, input=input):
                self._calls[call_id] = plain(_called(name, input))
                self._call(call_id, "started", new=True)
            case ToolProgress(call_id=call_id, content=content) if self.live:
                self._call(call_id, _glimpse(content))
            case ToolFinished():
                self._finished(event)
            case SubagentStarted() | SubagentEvent():
                self._show_subagent(event)
            case Notice(text=text) | ReplyDiscarded(reason=text):
                self.failure(plain_lines(text))
            case RunFinished():
                self._settle()

    def _finished(self, event: ToolFinished) -> None:
        result = event.result
        if event.call_id not in self._calls and result.is_error:  # it was refused, or never was a call
            self.failure(fit(plain(result.text), LONGEST_REFUSAL))
            return
        mark = self._styled(RED, "✗") if result.is_error else self._styled(GREEN, "✓")
        self._call(event.call_id, f"{mark} {plain(_in_short(result, event.details))}", new=not self.live)

    def _show_subagent(self, event: SubagentStarted | SubagentEvent) -> None:
        """In its call's line, where lines move; elsewhere a line for each of its calls."""
        if isinstance(event, SubagentStarted):
            self._subagents[event.session] = SubagentLine(event)
            return
        subagent = self._subagents[event.session]
        subagent.show(event.event)
        if subagent.was_refused(event.event):
            assert isinstance(event.event, ToolFinished)
            self.failure(fit(plain(f"{subagent.name}: {event.event.result.text}"), LONGEST_REFUSAL))
        if self.live:
            self._call(event.call_id, fit(str(subagent), LONGEST_STATE))
        elif isinstance(event.event, ToolStarted):
            started = plain(_called(event.event.name, event.event.input))
            self.line(f"    {subagent.name} ({subagent.title}): {fit(started, LONGEST)}")
        elif isinstance(event.event, Notice):
            self.failure(f"{subagent.name}: {plain_lines(event.event.text)}")

    def heading(self, title: str, subtitle: str) -> None:
        """A title with what it is about."""
        self._write(f"\n{self._styled(BOLD, title)} {self._styled(DIM, f'· {subtitle}')}\n\n")

    def question(self, text: str) -> None:
        """What the person asks."""
        self._write(f"{self._styled(CYAN, f'› {text}')}\n\n")

    def line(self, text: str) -> None:
        """A plain line, above those of calls that still change."""
        if self._lines:
            self._region.commit(text.split("\n"))
        else:
            self._write(f"{text}\n")

    def failure(self, text: str) -> None:
        """Something that went wrong."""
        self.line(self._styled(RED, f"✗ {text}"))

    def success(self, text: str) -> None:
        """Something that held."""
        self.line(self._styled(GREEN, f"✓ {text}"))

    def _call(self, call_id: str, state: str, *, new: bool = False) -> None:
        """A call's line, in its place where lines move; elsewhere another one."""
        if call_id not in self._calls:
            return
        room = self._region.width - columns(state) - 3 if self.live else LONGEST
        line = f"  {fit(self._calls[call_id], max(room, 8)):<28} {state}" if room >= 28 else f"  {state}"
        if self.live:
            self._lines[call_id] = line
            self._region.draw(list(self._lines.values()))
        elif new:
            self._write(f"{line}\n")

    def _settle(self) -> bool:
        """Let the lines of calls stand as they are; whether there were calls."""
        if self._lines:
            self._region.commit(list(self._lines.values()), below=())
        had = bool(self._calls)
        self._calls.clear()
        self._lines.clear()
        return had

    def _size(self) -> tuple[int, int]:
        """Of this terminal, which need not be that of standard output, and may not know its size."""
        with contextlib.suppress(OSError, ValueError):
            size = os.get_terminal_size(self._stream.fileno())
            if all(size):
                return size
        return shutil.get_terminal_size()

    def _styled(self, style: str, text: str) -> str:
        return styled(text, style) if self.live else text

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except BrokenPipeError:
            # Nobody reads any more, as after `| head`: finish quietly, also when the interpreter flushes at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())


def _called(name: str, input: dict[str, Any]) -> str:
    """A call in a few words: what a built-in tool is about, or all that another one is given."""
    return title(name, input) if name in ALL_NAMES else f"{name}({', '.join(map(str, input.values()))})"


def _glimpse(content: Any) -> str:
    """The last line of what a running tool shows, as far as it fits beside the call."""
    text = content["output"] if isinstance(content, dict) and isinstance(content.get("output"), str) else str(content)
    return next((line for line in reversed(printed_lines(text)) if line.strip()), "")[:40]


def _in_short(result: ToolResultBlock, details: Any) -> str:
    """A result in a few words: its files, its exit code, its text if that is short, else how long it is."""
    if isinstance(details, dict) and details.get("exit_code"):
        return f"exit code {details['exit_code']}"
    if result.attachments:
        return "; ".join(f"{file.label}, {file.mime_type}, {human_size(file.size)}" for file in result.attachments)
    lines = result.text.splitlines() or ["no output"]
    return lines[0] if len(lines) == 1 and len(lines[0]) < 60 else counted(len(lines), "line")
