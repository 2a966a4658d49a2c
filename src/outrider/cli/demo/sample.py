"""The bundled sample folder, and tools that let the demo model read it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from outrider.conversation.attachments import Attachment
from outrider.text import human_size
from outrider.tools.context import ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.tool import tool

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
