"""Prints the events of a session: text as it streams, and one line per tool call, updated in place."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from textwrap import fill
from time import monotonic
from typing import Any, TextIO

import msgspec

from outrider.cli.live_region import LiveRegion
from outrider.cli.sources import source_lines
from outrider.cli.styles import BOLD, CYAN, DIM, GREEN, RED, columns, fit, styled
from outrider.cli.subagent_line import SubagentLine
from outrider.coding import sentences
from outrider.coding.toolbox import ALL_NAMES
from outrider.coding.toolbox.titles import title
from outrider.conversation.messages import AttachmentBlock, Message, TextBlock, ToolResultBlock
from outrider.descriptors import discard_output
from outrider.runtime import events
from outrider.text import counted, human_size
from outrider.text.terminal import command_output_lines
from outrider.text.visible import safe_line, safe_lines

LONGEST, LONGEST_REFUSAL, LONGEST_STATE = 120, 300, 60
"""Maximum characters of a call, of a denial, and of a sub-agent's state."""
RETRY = "(retry)"
"""The key of the line that counts down to the next attempt."""
TICK_SECONDS = 1.0


class EventPrinter:
    """Writes events to a stream; uses colours and updates lines in place only on a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self.live = stream.isatty()
        self._stream = stream
        self._region = LiveRegion(stream, self._size)
        self._calls: dict[str, str] = {}
        """Titles of the calls started since the last text, by call id."""
        self._lines: dict[str, str] = {}
        """The lines of these calls in the live region."""
        self._subagents: dict[str, SubagentLine] = {}
        """Sub-agents by session id."""
        self._timer: asyncio.TimerHandle | None = None
        """Runs while a failed request waits for its next attempt."""

    def show(self, event: events.Event) -> None:
        self._end_countdown()
        match event:
            case events.TextDelta(text=text):
                if self._finish_calls():
                    self._write("\n")
                self._write(safe_lines(text))
            case events.MessageAdded(message=message) if message.role == "assistant":
                self._end_message(message)
            case events.ToolStarted(call_id=call_id, name=name, input=input):
                self._calls[call_id] = safe_line(_call_title(name, input))
                self._call(call_id, "started", new=True)
            case events.ToolProgress(call_id=call_id, content=content) if self.live:
                self._call(call_id, _last_output_line(content))
            case events.ToolFinished():
                self._finished(event)
            case events.ServerToolStarted(call_id=call_id, name=name, input=input):
                self._calls[call_id] = safe_line(title(name, input))
                self._call(call_id, "started", new=True)
            case events.ServerToolFinished(call_id=call_id, name=name, text=text, is_error=is_error):
                content = (TextBlock(text),) if text else ()
                self._finished(events.ToolFinished(call_id, name, ToolResultBlock(call_id, content, is_error)))
            case events.SubagentStarted() | events.SubagentEvent():
                self._show_subagent(event)
            case _:
                self._show_state(event)

    def _show_state(self, event: events.Event) -> None:
        match event:
            case events.SubagentFinished():
                self.line(safe_line(f"    {sentences.subagent_ended(event)}"))
            case events.Notice(text=text) | events.ModelSwitched(text=text):
                self.failure(safe_lines(text))
            case events.HandedOff(text=text):
                self.line(self._styled(DIM, safe_line(text)))
            case events.Retrying(text=text, delay=delay):
                if self.live:  # the line goes away afterwards
                    self._count_down(event, monotonic() + delay)
                else:
                    self.failure(safe_line(text))
            case events.Compacted() | events.ResultsCleared() | events.GoalChecked():
                self.line(self._styled(DIM, safe_line(sentences.remark(event))))
            case events.RunFinished():
                self._finish_calls()

    def _end_message(self, message: Message) -> None:
        self._finish_calls()
        self._write("\n")
        for line in source_lines(message.citations):
            self.line(line)
        for block in message.content:
            if isinstance(block, AttachmentBlock):  # a picture that the model made
                self.line(f"▣ {safe_line(block.label)}: attachment:{block.sha256}")

    def _finished(self, event: events.ToolFinished) -> None:
        result = event.result
        if event.call_id not in self._calls and result.is_error:  # denied or invalid, so it never started
            self.failure(fit(safe_line(result.text), LONGEST_REFUSAL))
            return
        mark = self._styled(RED, "✗") if result.is_error else self._styled(GREEN, "✓")
        self._call(event.call_id, f"{mark} {safe_line(_result_summary(result, event.details))}", new=not self.live)

    def _count_down(self, event: events.Retrying, end: float) -> None:
        """Show the seconds to the next attempt in one line, each second anew if an event loop runs."""
        left = max(0.0, end - monotonic())
        text = safe_line(msgspec.structs.replace(event, delay=left).text)
        self._lines[RETRY] = self._styled(RED, fit(f"✗ {text}", self._region.width))
        self._region.draw(list(self._lines.values()))
        if left:
            with contextlib.suppress(RuntimeError):  # no loop, as in a replay
                wait = min(TICK_SECONDS, left)
                self._timer = asyncio.get_running_loop().call_later(wait, self._count_down, event, end)

    def _end_countdown(self) -> None:
        if self._lines.pop(RETRY, None):
            if self._timer:
                self._timer.cancel()
                self._timer = None
            self._region.draw(list(self._lines.values()))

    def _show_subagent(self, event: events.SubagentStarted | events.SubagentEvent) -> None:
        """Show a sub-agent in its call's line on a terminal, else one line for each of its calls."""
        if isinstance(event, events.SubagentStarted):
            self._subagents[event.session] = SubagentLine(event)
            return
        subagent = self._subagents[event.session]
        is_called = event.call_id in self._calls  # else it works in the background
        subagent.show(event.event)
        if subagent.was_denied(event.event):
            assert isinstance(event.event, events.ToolFinished)
            self.failure(fit(safe_line(f"{subagent.name}: {event.event.result.text}"), LONGEST_REFUSAL))
        if self.live and is_called:
            self._call(event.call_id, fit(str(subagent), LONGEST_STATE))
        elif isinstance(event.event, events.ToolStarted):
            started = safe_line(_call_title(event.event.name, event.event.input))
            self.line(f"    {subagent.name} ({subagent.title}): {fit(started, LONGEST)}")
        elif isinstance(event.event, events.Notice | events.Retrying | events.ModelSwitched):
            self.failure(f"{subagent.name}: {safe_lines(event.event.text)}")
        elif isinstance(event.event, events.Compacted):
            self.line(f"    {subagent.name}: {sentences.shortened(event.event)}")

    def heading(self, title: str, subtitle: str) -> None:
        self._write(f"\n{self._styled(BOLD, title)} {self._styled(DIM, f'· {subtitle}')}\n\n")

    def question(self, text: str) -> None:
        """Print the user's prompt, wrapped on a terminal."""
        text = f"› {text}"
        if self.live:
            text = fill(text, self._region.width, subsequent_indent="  ")
        self._write(f"{self._styled(CYAN, text)}\n\n")

    def line(self, text: str) -> None:
        """Print a line, above the lines of running calls."""
        if self._lines:
            self._region.commit(text.split("\n"))
        else:
            self._write(f"{text}\n")

    def failure(self, text: str) -> None:
        self.line(self._styled(RED, f"✗ {text}"))

    def success(self, text: str) -> None:
        self.line(self._styled(GREEN, f"✓ {text}"))

    def _call(self, call_id: str, state: str, *, new: bool = False) -> None:
        """Update a call's line in place on a terminal; else print a new line."""
        if call_id not in self._calls:
            return
        room = self._region.width - columns(state) - 3 if self.live else LONGEST
        line = f"  {fit(self._calls[call_id], max(room, 8)):<28} {state}" if room >= 28 else f"  {state}"
        if self.live:
            self._lines[call_id] = line
            self._region.draw(list(self._lines.values()))
        elif new:
            self._write(f"{line}\n")

    def _finish_calls(self) -> bool:
        """Make the lines of calls permanent. Return whether there were calls."""
        if self._lines:
            self._region.commit(list(self._lines.values()), below=())
        had = bool(self._calls)
        self._calls.clear()
        self._lines.clear()
        return had

    def _size(self) -> tuple[int, int]:
        """Return the size of this stream's terminal, which may differ from that of standard output or be unknown."""
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
            discard_output(self._stream)


def _call_title(name: str, input: dict[str, Any]) -> str:
    """Return a short title: that of a built-in tool, or the name and arguments of another tool."""
    return title(name, input) if name in ALL_NAMES else f"{name}({', '.join(map(str, input.values()))})"


def _last_output_line(content: Any) -> str:
    """Return the last line of a running tool's output, cut to fit beside the call."""
    text = content["output"] if isinstance(content, dict) and isinstance(content.get("output"), str) else str(content)
    return next((line for line in reversed(command_output_lines(text)) if line.strip()), "")[:40]


def _result_summary(result: ToolResultBlock, details: Any) -> str:
    """Summarise a result: its exit code, its files, its text if short, else its length."""
    if isinstance(details, dict) and details.get("exit_code"):
        return f"exit code {details['exit_code']}"
    if result.attachments:
        return "; ".join(f"{file.label}, {file.mime_type}, {human_size(file.size)}" for file in result.attachments)
    lines = result.text.splitlines() or ["no output"]
    return lines[0] if len(lines) == 1 and len(lines[0]) < 60 else counted(len(lines), "line")
