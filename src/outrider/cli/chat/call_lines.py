"""One tool call as lines: its title, what it is doing, what came of it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from typing import Any

from outrider.cli.plain import plain, plain_lines
from outrider.cli.printed import printed_lines
from outrider.cli.styles import CYAN, DIM, GREEN, RED, YELLOW, broken, fit, styled
from outrider.cli.subagent_line import SubagentLine
from outrider.conversation.messages import AttachmentBlock, ToolResultBlock
from outrider.runtime.events import ToolFinished
from outrider.text import counted, dollars, human_size

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

    def __init__(self, call_title: str) -> None:
        self._title = call_title
        self._began = time.monotonic()
        self._output = ""
        self._state = ""
        self.subagents: dict[str, SubagentLine] = {}
        """Those whom the call has sent out, by their sessions."""

    def show(self, content: Any) -> None:
        """Take what the tool shows: more output, or how far it is."""
        if isinstance(content, dict) and isinstance(content.get("output"), str):
            self._output = (self._output + content["output"])[-_TAIL:]
        else:
            self._state = plain(str(content))

    def lines(self, width: int) -> Iterator[str]:
        """Its title with the time it takes, and the end of its output."""
        seconds = time.monotonic() - self._began
        took = f" {seconds:.0f} s" if seconds >= 2 else ""
        yield f"{styled(spinner(seconds), CYAN)} {fit(self._title, width - 10)}{styled(took, DIM)}"
        if self._state:
            yield styled(f"  {fit(self._state, width - 2)}", DIM)
        for subagent in self.subagents.values():
            yield styled(f"  └ {fit(str(subagent), width - 4)}", DIM)
        yield from _indented(printed_lines(self._output)[-LIVE_LINES:], width)


def spinner(seconds: float) -> str:
    """What turns while something goes on."""
    return _SPINNER[int(seconds * 10) % len(_SPINNER)]


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
    elif "structured_output" in details:
        yield from _data(details["structured_output"], width)
    elif result.is_error or "exit_code" in details:
        yield from _ending(result, width)


def diff_lines(diff: str, width: int, most: int = DIFF_LINES) -> Iterator[str]:
    """A unified diff in colour, without its file names."""
    lines = plain_lines(diff).rstrip("\n").split("\n")
    if lines[0].startswith("--- ") and len(lines) > 1 and lines[1].startswith("+++ "):
        lines = lines[2:]
    yield from coloured((fit(line, width - 4) for line in lines[:most]), width)
    if len(lines) > most:
        yield styled(f"    … {counted(len(lines) - most, 'more line')}", DIM)


def coloured(lines: Iterable[str], width: int) -> Iterator[str]:
    """Lines of a diff, each whole."""
    for line in lines:
        style = GREEN if line.startswith("+") else RED if line.startswith("-") else CYAN if line[:2] == "@@" else DIM
        for piece in broken(line, width - 4):
            yield styled(f"    {piece}", style)


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
        return plain(f"+{details['added']} −{details['removed']}")
    if "exit_code" in details:
        code = details["exit_code"]
        took = details.get("seconds")
        seconds = f"{took:.1f} s" if isinstance(took, float | int) and took >= 1 else ""
        said = "" if code in (0, None) else plain(f"exit code {code}")
        return ", ".join(filter(None, (said, seconds)))
    if isinstance(turns := details.get("turns"), int):
        cost = details.get("cost")
        spent = dollars(cost) if isinstance(cost, float) else ""
        return ", ".join(filter(None, (counted(turns, "turn"), spent)))
    if result.attachments:
        return counted(len(result.attachments), "file")
    if result.is_error or "todos" in details:
        return ""
    return counted(len(result.text.splitlines()), "line") if result.text else "no output"


def _ending(result: ToolResultBlock, width: int) -> Iterator[str]:
    lines = printed_lines(result.text.strip("\n"))
    if len(lines) > SHOWN_LINES:
        yield styled(f"    … {counted(len(lines) - SHOWN_LINES, 'more line')} above", DIM)
    yield from _indented(lines[-SHOWN_LINES:], width)


def _indented(lines: list[str], width: int) -> Iterator[str]:
    for line in lines:
        yield styled(f"    {fit(line, width - 4)}", DIM)


def _data(data: Any, width: int) -> Iterator[str]:
    """What a sub-agent has reported, as JSON: a line for each item, or for each field."""
    rows = data if isinstance(data, list) else [{key: data[key]} for key in data] if isinstance(data, dict) else [data]
    lines = [plain(json.dumps(row, ensure_ascii=False, default=str)) for row in rows]
    yield from _indented(lines[:SHOWN_LINES], width)
    if len(lines) > SHOWN_LINES:
        yield styled(f"    … {counted(len(lines) - SHOWN_LINES, 'more line')}", DIM)


def _todos(todos: list[Any], width: int) -> Iterator[str]:
    for each in todos:
        if isinstance(each, dict):
            status = each.get("status")
            style = DIM if status == "completed" else YELLOW if status == "in_progress" else ""
            yield styled(f"    {_MARKS.get(str(status), '☐')} {fit(plain(str(each.get('content'))), width - 6)}", style)
