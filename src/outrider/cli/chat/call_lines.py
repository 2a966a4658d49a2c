"""One tool call as lines: its title, what it is doing, what came of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from outrider.cli.chat.styles import CYAN, DIM, GREEN, RED, YELLOW, fit, styled
from outrider.cli.plain import plain, plain_lines
from outrider.events import ToolFinished, ToolStarted
from outrider.messages import AttachmentBlock, ToolResultBlock
from outrider.text import counted, human_size
from outrider.toolbox.titles import title

LIVE_LINES = 6
"""Lines of a running command's output that are shown."""
SHOWN_LINES = 8
"""Lines of a finished command's output, or of an error."""
DIFF_LINES = 40
_TAIL = 4_000
_MARKS = {"pending": "☐", "in_progress": "▸", "completed": "☑"}
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class RunningCall:
    """A call that is being carried out, with the end of what it has shown."""

    def __init__(self, started: ToolStarted, folder: Path) -> None:
        self.title = plain(title(started.name, started.input, folder))
        self._began = time.monotonic()
        self._output = ""
        self._state = ""

    def show(self, content: Any) -> None:
        """Take what the tool shows: more output, or how far it is."""
        if isinstance(content, dict) and isinstance(content.get("output"), str):
            self._output = (self._output + plain_lines(content["output"]))[-_TAIL:]
        else:
            self._state = plain(str(content))

    def lines(self, width: int) -> Iterator[str]:
        """Its title with the time it takes, and the end of its output."""
        seconds = time.monotonic() - self._began
        spinner = styled(_SPINNER[int(seconds * 10) % len(_SPINNER)], CYAN)
        took = f" {seconds:.0f} s" if seconds >= 2 else ""
        yield f"{spinner} {fit(self.title, width - 10)}{styled(took, DIM)}"
        if self._state:
            yield styled(f"  {fit(self._state, width - 2)}", DIM)
        yield from _indented(self._output.splitlines()[-LIVE_LINES:], width)


def finished(event: ToolFinished, call_title: str, width: int) -> Iterator[str]:
    """What came of a call."""
    result, details = event.result, event.details if isinstance(event.details, dict) else {}
    mark = styled("✗", RED) if result.is_error else styled("✓", GREEN)
    said = _in_short(result, details)
    room = max(20, width - len(said) - 5)
    yield f"{mark} {fit(call_title, room)}{styled(f' · {said}', DIM) if said else ''}"
    if isinstance(todos := details.get("todos"), list):
        yield from _todos(todos, width)
    elif isinstance(diff := details.get("diff"), str) and diff:
        yield from diff_lines(diff, width)
    elif result.is_error or "exit_code" in details:
        yield from _ending(result, width)


def diff_lines(diff: str, width: int, most: int = DIFF_LINES) -> Iterator[str]:
    """A unified diff in colour, without its file names."""
    lines = [line for line in plain_lines(diff).split("\n") if not line.startswith(("--- ", "+++ "))]
    for line in lines[:most]:
        style = GREEN if line.startswith("+") else RED if line.startswith("-") else CYAN if line[:2] == "@@" else DIM
        yield styled(f"    {fit(line, width - 4)}", style)
    if len(lines) > most:
        yield styled(f"    … {counted(len(lines) - most, 'more line')}", DIM)


def caption(file: AttachmentBlock, data: bytes | None = None) -> str:
    """A file in a few words; a picture with its size, where its bytes are at hand."""
    kind = file.mime_type.rpartition("/")[2].upper()
    size = _pixels(data) if data and file.mime_type.startswith("image/") else ""
    return plain(", ".join(part for part in (file.label, kind, size, human_size(file.size)) if part))


def _pixels(data: bytes) -> str:
    from io import BytesIO

    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(BytesIO(data)) as picture:
            return f"{picture.width} × {picture.height}"
    except (UnidentifiedImageError, OSError, ValueError, Image.DecompressionBombError):
        return ""


def _in_short(result: ToolResultBlock, details: dict[str, Any]) -> str:
    if "added" in details and "removed" in details:
        return f"+{details['added']} −{details['removed']}"
    if "exit_code" in details:
        code = details["exit_code"]
        took = details.get("seconds")
        seconds = f"{took:.1f} s" if isinstance(took, float | int) and took >= 1 else ""
        return ", ".join(filter(None, ("" if code == 0 else f"exit code {code}" if code is not None else "", seconds)))
    if result.attachments:
        return counted(len(result.attachments), "file")
    if result.is_error or "todos" in details:
        return ""
    return counted(len(result.text.splitlines()), "line") if result.text else "no output"


def _ending(result: ToolResultBlock, width: int) -> Iterator[str]:
    lines = plain_lines(result.text).strip("\n").split("\n") if result.text else []
    if len(lines) > SHOWN_LINES:
        yield styled(f"    … {counted(len(lines) - SHOWN_LINES, 'more line')} above", DIM)
    yield from _indented(lines[-SHOWN_LINES:], width)


def _indented(lines: list[str], width: int) -> Iterator[str]:
    for line in lines:
        yield styled(f"    {fit(line, width - 4)}", DIM)


def _todos(todos: list[Any], width: int) -> Iterator[str]:
    for each in todos:
        if isinstance(each, dict):
            status = each.get("status")
            style = DIM if status == "completed" else YELLOW if status == "in_progress" else ""
            yield styled(f"    {_MARKS.get(str(status), '☐')} {fit(plain(str(each.get('content'))), width - 6)}", style)
