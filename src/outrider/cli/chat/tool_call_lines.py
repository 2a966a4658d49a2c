"""A tool call as lines: its title, its live output, its result."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from outrider.cli.styles import CYAN, DIM, GREEN, RED, YELLOW, fit, styled, wrap_columns, wrap_words
from outrider.cli.subagent_line import SubagentLine
from outrider.coding.toolbox.titles import partial_title
from outrider.conversation.json_text import GrowingObject
from outrider.conversation.messages import AttachmentBlock, TextBlock, ToolResultBlock
from outrider.log.background import ID_CHARACTERS
from outrider.runtime.events import ToolFinished
from outrider.text import counted, dollars, human_size
from outrider.text.terminal import command_output_lines
from outrider.text.visible import safe_line, safe_lines

LIVE_LINES = 6
"""Lines shown of a running command's output."""
SHOWN_LINES = 8
"""Lines shown of a finished command's output, or of an error."""
DIFF_LINES = 40
HINT_SECONDS = 10
"""How long a command runs before the key is named that moves it to the background."""
_TAIL = 4_000
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_MARKS = {"pending": "☐", "in_progress": "▸", "completed": "☑"}
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class RunningCall:
    """A running call, with the end of its output."""

    def __init__(self, call_title: str) -> None:
        self._title = call_title
        self._started = time.monotonic()
        self._output = ""
        self._state = ""
        self.subagents: dict[str, SubagentLine] = {}
        """Sub-agents of the call, by session id."""

    def show(self, content: Any) -> None:
        """Add progress of the tool: more output, or a new state."""
        if isinstance(content, dict) and isinstance(content.get("output"), str):
            self._output = (self._output + content["output"])[-_TAIL:]
        else:
            self._state = safe_line(str(content))

    def lines(self, width: int) -> Iterator[str]:
        """Yield the title with the elapsed time, then the end of the output."""
        seconds = time.monotonic() - self._started
        took = f" {seconds:.0f} s" if seconds >= 2 else ""
        if seconds >= HINT_SECONDS and self._title.startswith("Bash("):
            took += " · Ctrl-B: to the background"
        room = width - max(10, len(took) + 2)
        yield f"{styled(spinner(seconds), CYAN)} {fit(self._title, room)}{styled(took, DIM)}"
        if self._state:
            yield styled(f"  {fit(self._state, width - 2)}", DIM)
        for subagent in self.subagents.values():
            yield styled(f"  └ {fit(str(subagent), width - 4)}", DIM)
        yield from _indented(command_output_lines(self._output)[-LIVE_LINES:], width)


class IncomingCall:
    """A call whose arguments are still streaming."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name = self._title = name
        self._folder = folder
        self._arguments = GrowingObject(unfinished=False)
        self._size = 0

    def add(self, arguments: str) -> None:
        self._size += len(arguments)
        if known := self._arguments.add(arguments):
            self._title = safe_line(partial_title(self._name, known, self._folder))

    def line(self, width: int) -> str:
        """Return the title as far as it is known, and how much has arrived."""
        size = f" ({human_size(self._size)} of arguments)"
        return styled(f"… {fit(safe_line(self._title), width - len(size) - 2)}{size}", DIM)


def spinner(seconds: float) -> str:
    """Return the spinner's character after so many seconds."""
    return _SPINNER[int(seconds * 10) % len(_SPINNER)]


def finished_call_lines(event: ToolFinished, call_title: str, width: int) -> Iterator[str]:
    """Yield a finished call: its title, a summary, and its diff, data or output."""
    result, details = event.result, event.details if isinstance(event.details, dict) else {}
    mark = styled("✗", RED) if result.is_error else styled("✓", GREEN)
    summary = _summary(result, details)
    room = max(20, width - len(summary) - 5)
    yield f"{mark} {fit(call_title, room)}{styled(f' · {summary}', DIM) if summary else ''}"
    if isinstance(todos := details.get("todos"), list):
        yield from _todo_lines(todos, width)
    elif "answers" in details:
        lines = safe_lines(result.text).split("\n")
        yield from _indented([part for line in lines for part in wrap_words(line, width - 4)], width)
    elif isinstance(diff := details.get("diff"), str) and diff:
        yield from diff_lines(diff, width)
    elif "structured_output" in details:
        yield from _data_lines(details["structured_output"], width)
    elif task := _task(details):
        yield from _indented([f"/tasks {task} follows it, /tasks end {task} ends it"], width)
    elif result.is_error or "exit_code" in details:
        yield from _output_lines(result, width, is_error="exit_code" not in details)


def _task(details: Mapping[str, Any]) -> str:
    """Return the name of a command or a sub-agent that goes on in the background."""
    if details.get("background") is True:
        return safe_line(str(details.get("session", "")))[:ID_CHARACTERS]
    return str(details["task"]) if "task" in details and details.get("exit_code") is None else ""


def whole_call_lines(event: ToolFinished, call_title: str, width: int) -> Iterator[str]:
    """Yield a finished call with its whole diff or output."""
    yield next(finished_call_lines(event, call_title, width))
    details = event.details if isinstance(event.details, dict) else {}
    if isinstance(diff := details.get("diff"), str) and diff:
        yield from numbered_diff(_without_names(diff), width)
    else:
        yield from (f"    {line}" for line in command_output_lines(event.result.text))


def diff_lines(diff: str, width: int, most: int = DIFF_LINES) -> Iterator[str]:
    """Yield a unified diff in colour, with line numbers and without its file names."""
    lines = _without_names(diff)
    yield from numbered_diff(lines[:most], width, wraps=False)
    if len(lines) > most:
        yield styled(f"    … {counted(len(lines) - most, 'more line')} (Ctrl-O opens all)", DIM)


def _without_names(diff: str) -> list[str]:
    lines = safe_lines(diff).rstrip("\n").split("\n")
    return lines[2:] if lines[0].startswith("--- ") and lines[1:2] and lines[1].startswith("+++ ") else lines


def numbered_diff(lines: Sequence[str], width: int, *, wraps: bool = True) -> Iterator[str]:
    """Yield the hunks of a unified diff in colour, each line with its number. Without a hunk, there are no numbers."""
    starts = {at: max(int(found[1]), int(found[2])) for at, line in enumerate(lines) if (found := _HUNK.match(line))}
    gutter = max((len(str(start + len(lines[at + 1 :]) - 1)) for at, start in [*starts.items()][-1:]), default=0)
    old = new = hunks = 0
    for line in lines:
        if found := _HUNK.match(line):
            old, new = int(found[1]), int(found[2])
            hunks += 1
            if hunks > 1:
                yield styled(f"    {'⋮':>{gutter}}", DIM)
            continue
        sign = line[:1] if line[:1] in ("+", "-", " ") else ""
        number = str(old if sign == "-" else new) if sign and gutter else ""
        old, new = old + (sign in ("-", " ")), new + (sign in ("+", " "))
        style = {"+": GREEN, "-": RED}.get(sign, DIM)
        room = width - 4 - (gutter + 1 if gutter else 0)
        for piece in wrap_columns(line, room) if wraps else [fit(line, room)]:
            yield styled(f"    {number:>{gutter}} {piece}" if gutter else f"    {piece}", style)
            number = ""


def coloured_diff(lines: Iterable[str], width: int) -> Iterator[str]:
    """Yield lines of a diff in colour; long lines wrap."""
    for line in lines:
        style = GREEN if line.startswith("+") else RED if line.startswith("-") else CYAN if line[:2] == "@@" else DIM
        for piece in wrap_columns(line, width - 4):
            yield styled(f"    {piece}", style)


def caption(file: AttachmentBlock, data: bytes | None = None) -> str:
    """Describe a file; with `data`, an image also by its size in pixels."""
    kind = file.mime_type.rpartition("/")[2].upper()
    size = _pixels(data) if data and file.mime_type.startswith("image/") else ""
    return safe_line(", ".join(part for part in (file.label, kind, size, human_size(file.size)) if part))


def _pixels(data: bytes) -> str:
    from io import BytesIO

    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(BytesIO(data)) as picture:
            return f"{picture.width} × {picture.height}"
    except (UnidentifiedImageError, OSError, ValueError, Image.DecompressionBombError):
        return ""


def _summary(result: ToolResultBlock, details: dict[str, Any]) -> str:
    if "added" in details and "removed" in details:
        return safe_line(f"+{details['added']} −{details['removed']}")
    if "exit_code" in details:
        code = details["exit_code"]
        took = details.get("seconds")
        seconds = f"{took:.1f} s" if isinstance(took, float | int) and took >= 1 else ""
        summary = "" if code in (0, None) else safe_line(f"exit code {code}")
        return ", ".join(filter(None, (summary, seconds)))
    if details.get("background") is True:
        return "in the background"
    if isinstance(turns := details.get("turns"), int):
        cost = details.get("cost")
        spent = dollars(cost) if isinstance(cost, float) else ""
        return ", ".join(filter(None, (counted(turns, "turn"), spent)))
    if result.attachments:
        return counted(len(result.attachments), "file")
    if result.is_error or "todos" in details or "answers" in details:
        return ""
    shown = next((each.text for each in result.content if isinstance(each, TextBlock)), "")  # a note may follow
    return counted(len(shown.splitlines()), "line") if shown else "no output"


def _output_lines(result: ToolResultBlock, width: int, *, is_error: bool) -> Iterator[str]:
    """Yield the end of an output, cut at the right; an error of a tool is a text, which is broken between words."""
    lines = command_output_lines(result.text.strip("\n"))
    if is_error:
        lines = [part for line in lines for part in wrap_words(line, width - 4)]
    if len(lines) > SHOWN_LINES:
        yield styled(f"    … {counted(len(lines) - SHOWN_LINES, 'more line')} above (Ctrl-O opens all)", DIM)
    yield from _indented(lines[-SHOWN_LINES:], width)


def _indented(lines: list[str], width: int) -> Iterator[str]:
    for line in lines:
        yield styled(f"    {fit(line, width - 4)}", DIM)


def _data_lines(data: Any, width: int) -> Iterator[str]:
    """Yield a sub-agent's structured output as JSON: one line per item or per field."""
    rows = data if isinstance(data, list) else [{key: data[key]} for key in data] if isinstance(data, dict) else [data]
    lines = [safe_line(json.dumps(row, ensure_ascii=False, default=str)) for row in rows]
    yield from _indented(lines[:SHOWN_LINES], width)
    if len(lines) > SHOWN_LINES:
        yield styled(f"    … {counted(len(lines) - SHOWN_LINES, 'more line')}", DIM)


def _todo_lines(todos: list[Any], width: int) -> Iterator[str]:
    for each in todos:
        if isinstance(each, dict):
            status = each.get("status")
            style = DIM if status == "completed" else YELLOW if status == "in_progress" else ""
            yield styled(
                f"    {_MARKS.get(str(status), '☐')} {fit(safe_line(str(each.get('content'))), width - 6)}", style
            )
