"""A result of 20 MB: how much memory its call needs at the peak."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.figure import Figure
from bench.long_sessions import _peak_megabytes
from outrider import Agent, Log, Session
from outrider.coding.toolbox.files.read import read
from outrider.coding.toolbox.workspace import Workspace
from outrider.testing import ScriptedModel, call
from outrider.tools.tool import make_tool

SIZE = 20_000_000
LINE = "This is a line of a long text, of 64 characters and a line feed.\n"
ROUNDS = 3


def measure() -> Iterator[Figure]:
    """The peak of a process with a log, beyond that of a small call before; the largest of several processes."""
    for kind, name in (("text", "a tool returns 20 MB of text"), ("Read", "Read takes a line of a file of 20 MB")):
        yield Figure(f"{name}: peak memory / 20 MB", max(_peak(kind) for _ in range(ROUNDS)), "x", 3.0)


def _peak(kind: str) -> float:
    said = subprocess.run([sys.executable, "-m", "bench.large_results", kind], capture_output=True, check=True)
    return float(said.stdout)


async def _call(log: Log, tool: Callable[..., Any], **arguments: Any) -> None:
    model = ScriptedModel([call(make_tool(tool).name, **arguments), "done"])
    async with Session.open(log, agent=Agent(model, tools=[tool])) as session:
        (await session.run("go")).raise_for_status()
        assert not session.messages[2].tool_results[0].is_error


async def _main(kind: str, folder: Path) -> None:
    def text(size: int) -> str:
        """Return a long text."""
        return LINE * (size // len(LINE))

    small, large = folder / "small.txt", folder / "large.txt"
    small.write_text(LINE)
    with large.open("w") as file:
        for _ in range(SIZE // len(LINE)):
            file.write(LINE)
    with Log(folder / "log") as log:
        if kind == "text":
            await _call(log, text, size=100_000)
            before = _peak_megabytes()
            await _call(log, text, size=SIZE)
        else:
            tool = read(Workspace(folder))
            await _call(log, tool, file_path=str(small))
            before = _peak_megabytes()
            await _call(log, tool, file_path=str(large))
    print((_peak_megabytes() - before) * 2**20 / SIZE)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        asyncio.run(_main(sys.argv[1], Path(temporary)))
