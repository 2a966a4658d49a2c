"""Calling a tool as a session does, but without one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from outrider.tools.context import CallRef, ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.threads import Threads
from outrider.tools.tool import Tool


async def call(
    tool: Tool,
    *,
    shown: Callable[[Any], None] = lambda _: None,
    within: float = 60,
    asker: Any = None,
    **arguments: Any,
) -> ToolResult:
    """The result of a call with these arguments. `asker` answers the questions of the tool."""
    context = ToolContext(CallRef("c1"), Path("/"), Threads(), shown).asking(asker)
    async with asyncio.timeout(within):
        return await tool.invoke(arguments, context)


def put(path: Path, content: str | bytes = "") -> Path:
    """A file with this content, in a folder that is made for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path
