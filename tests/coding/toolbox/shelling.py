"""A Bash tool to try, and a look at the processes that it leaves."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from outrider.coding.sandbox.sandbox import Sandbox
from outrider.coding.toolbox.shell.bash import bash
from outrider.coding.toolbox.shell.shell import Shell
from outrider.coding.toolbox.workspace import Workspace
from outrider.tools.context import CallRef, ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.threads import Threads

PATIENCE = 20.0


class Shelling:
    """A workspace in a folder, its Bash tool, and what observers are shown."""

    def __init__(self, folder: Path, sandbox: Sandbox | None = None, **options: Any) -> None:
        self.workspace = Workspace(folder)
        self.tool = bash(Shell(self.workspace, sandbox, **options))
        self.shown: list[str] = []

    async def run(self, command: str, **arguments: Any) -> ToolResult:
        context = ToolContext(
            CallRef("call"), self.workspace.folder, Threads(), lambda content: self.shown.append(content["output"])
        )
        return await self.tool.invoke({"command": command, **arguments}, context)

    def close(self) -> None:
        self.workspace.close()

    async def until_shown(self, text: str) -> None:
        await until(lambda: text in "".join(self.shown))


async def until(condition: Callable[[], Any]) -> None:
    """Wait for something to come true."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        await asyncio.sleep(0.01)


def new_nap() -> str:
    """Seconds to sleep that no other process sleeps, so that it can be found by them: over half an hour."""
    return f"{2_000 + os.getpid() % 1000}.{time.monotonic_ns()}"


def sleepers(nap: str) -> list[int]:
    """The processes that have these seconds in their arguments."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            arguments = Path("/proc", name, "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if nap.encode() in arguments:
            found.append(int(name))
    return found
