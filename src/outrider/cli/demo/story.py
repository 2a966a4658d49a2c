"""The context of one demo: a printer, a folder of its own, the demo model, and the failed checks."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from outrider.cli.event_printer import EventPrinter
from outrider.cli.styles import columns, fit, styled
from outrider.conversation.attachments import Attachment
from outrider.processes.starting import python_module
from outrider.providers.demo.demo import DemoModel
from outrider.text import human_size
from outrider.tools.context import ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.tool import tool

Json: TypeAlias = dict[str, Any]
PACE = 0.01
"""Seconds per word on a terminal."""
LINE_SECONDS, PAUSE_SECONDS = 0.03, 0.3
"""Seconds per line, and for a pause to read, on a terminal."""
WIDEST = 120
LONGEST_STRINGS = (32, 24, 16)
"""Maximum characters of a JSON string: the first of these with which the line fits."""
TAIL = 32
"""Columns kept from the end of a line that is still too long."""


class Story:
    """Context of one demo."""

    def __init__(self, printer: EventPrinter, title: str, folder: Path, sample: Path) -> None:
        self.printer = printer
        self.title = title
        self.folder = folder
        """Where the demo stores its data."""
        self.sample = sample
        """The sample folder that the model reads."""
        self.pace = PACE if printer.live else 0.0
        self.model = DemoModel(self.pace)
        self.failures: list[str] = []
        """Messages of the failed checks, without a final full stop."""

    def heading(self, subtitle: str) -> None:
        self.pause()
        self.printer.heading(self.title, subtitle)

    def print_lines(self, *lines: str) -> None:
        """Print lines, cut to the width of the terminal."""
        for line in lines:
            self.printer.line(fit(line, self._width))
            self._wait(LINE_SECONDS)

    def print_json(self, lead: str, value: Any, style: str = "") -> None:
        """Print a value as one line of JSON; cut its long strings and, if necessary, the middle of the line."""
        lines = [f"{lead}{_short_json(value, longest)}" for longest in LONGEST_STRINGS]
        line = next((line for line in lines if columns(line) <= self._width), lines[-1])
        if columns(line) > self._width:
            line = fit(line, self._width - TAIL) + line[-TAIL:]
        self.printer.line(styled(line, style) if style and self.printer.live else line)
        self._wait(LINE_SECONDS)

    def pause(self) -> None:
        """Pause, on a terminal, to let the user read."""
        self._wait(PAUSE_SECONDS)

    def check(self, checks: Mapping[str, bool]) -> None:
        """Record the failed checks; each key is the message for a failure, each value is whether the check passed."""
        self.failures += [message for message, passed in checks.items() if not passed]

    def command(self, module: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
        """Return the command and environment that run a module in another process, with this demo's data folder."""
        ours = {"OUTRIDER_HOME": str(self.folder / "home"), "OUTRIDER_CONFIG": str(self.folder / "config.toml")}
        ours["TMPDIR"] = str(self.folder)  # a process that is killed cannot tidy up
        others = {name: value for name, value in os.environ.items() if not name.startswith("OUTRIDER_")}
        return python_module(module, *arguments), others | ours | {"PYTHONIOENCODING": "utf-8"}

    @property
    def _width(self) -> int:
        return shutil.get_terminal_size().columns - 1 if self.printer.live else WIDEST

    def _wait(self, seconds: float) -> None:
        if self.printer.live:
            time.sleep(seconds)


def last_line(output: str) -> str:
    return (output.strip() or "no output").splitlines()[-1]


def _short_json(value: Any, longest: int) -> str:
    return json.dumps(_cut(value, longest), ensure_ascii=False, separators=(",", ":"))


def _cut(value: Any, longest: int) -> Any:
    if isinstance(value, dict):
        return {name: _cut(item, longest) for name, item in value.items()}
    if isinstance(value, list):
        return [_cut(item, longest) for item in value]
    return fit(value, longest) if isinstance(value, str) else value


SAMPLE = Path(__file__).parent.parent / "sample"
PIECES, PAUSE = 8, 0.03
"""The number of pieces in which a file is read, so that progress is visible, and the seconds between them."""


@tool(effect="read")
def list_files(context: ToolContext, folder: str = ".") -> str:
    """List the files of a folder, one a line."""
    return "\n".join(sorted(path.name for path in (context.cwd / folder).iterdir() if path.is_file()))


@tool(effect="read")
async def read_file(path: str, context: ToolContext) -> AsyncIterator[str | ToolResult]:
    """Read a file: text as text, a picture or a PDF as the file itself.

    Args:
        path: The file, relative to the working directory.
    """
    file = context.cwd / path
    if not file.is_file():
        yield ToolResult(f"there is no {path} in this folder", is_error=True)
        return
    size = file.stat().st_size
    data = b""
    with file.open("rb") as stream:
        while chunk := stream.read(max(1, -(-size // PIECES))):
            data += chunk
            yield f"{human_size(len(data))} of {human_size(size)}"
            await asyncio.sleep(PAUSE if sys.stdout.isatty() else 0)
    if file.suffix in (".png", ".pdf"):
        yield ToolResult(f"{path} is attached.", attachments=[Attachment.from_path(file)])
    else:
        yield ToolResult(data.decode())
