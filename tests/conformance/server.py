"""The server under test of the official MCP conformance suite: Outrider over HTTP, without a token.

Beside its own tool, it has those of the suite that show what the server does for every tool: contents, errors, progress
and questions. It prints its address, and serves until standard input ends.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from outrider.log.log import Log
from outrider.mcp_server.host import Host, ServedTool
from outrider.mcp_server.http import PATH, HttpServer
from outrider.mcp_server.serving import listen
from outrider.mcp_server.task_tool import Elicit
from outrider.mcp_server.tasks import Tasks

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQIAAACAgA=="
TEXT = {"type": "text", "text": "This is a simple text response for testing."}
IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": WAV, "mimeType": "audio/wav"}
RESOURCE = {
    "type": "resource",
    "resource": {"uri": "test://embedded-resource", "mimeType": "text/plain", "text": "This is an embedded resource."},
}
CONTENTS: dict[str, list[dict[str, Any]]] = {
    "test_simple_text": [TEXT],
    "test_image_content": [IMAGE],
    "test_audio_content": [AUDIO],
    "test_embedded_resource": [RESOURCE],
    "test_multiple_content_types": [TEXT, IMAGE, RESOURCE],
}
ONE, TWO = {"const": "value1", "title": "First Option"}, {"const": "value2", "title": "Second Option"}
FORMS: dict[str, dict[str, Any]] = {
    "test_elicitation": {"response": {"type": "string", "description": "User's response"}},
    "test_elicitation_sep1034_defaults": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
    "test_elicitation_sep1330_enums": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {"type": "string", "oneOf": [ONE, TWO, {"const": "value3", "title": "Third Option"}]},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
        "titledMulti": {"type": "array", "items": {"anyOf": [ONE, TWO, {"const": "value3", "title": "Third"}]}},
    },
}


def tool(name: str, run: Callable[..., Any]) -> ServedTool:
    """A tool of the suite."""
    return ServedTool({"name": name, "description": name, "inputSchema": {"type": "object"}}, run)


def shown(name: str) -> ServedTool:
    """A tool that returns content."""

    async def run(arguments: Any, elicit: Elicit | None, on_step: Callable[[str], None]) -> dict[str, Any]:
        return {"content": CONTENTS[name]}

    return tool(name, run)


def asking(name: str) -> ServedTool:
    """A tool that asks the person."""

    async def run(arguments: Any, elicit: Elicit | None, on_step: Callable[[str], None]) -> dict[str, Any]:
        assert elicit
        form = {"type": "object", "properties": FORMS[name], "required": []}
        answer = await elicit({"mode": "form", "message": "Please answer", "requestedSchema": form})
        return {"content": [{"type": "text", "text": str(answer)}]}

    return tool(name, run)


async def fail(arguments: Any, elicit: Elicit | None, on_step: Callable[[str], None]) -> dict[str, Any]:
    """Fail."""
    return {"content": [{"type": "text", "text": "This tool intentionally returns an error"}], "isError": True}


async def progress(arguments: Any, elicit: Elicit | None, on_step: Callable[[str], None]) -> dict[str, Any]:
    """Tell of three steps."""
    for step in ("one", "two", "three"):
        on_step(step)
    return {"content": [TEXT]}


async def main() -> None:
    """Serve."""
    with tempfile.TemporaryDirectory() as folder, Log(Path(folder) / "log") as log:
        tools = [*map(shown, CONTENTS), *map(asking, FORMS)]
        tools += [tool("test_error_handling", fail), tool("test_tool_with_progress", progress)]
        host = Host([Tasks(log, [Path(folder)], {"model": "demo"}).tool, *tools])
        server = HttpServer(host, None)
        runner = await listen(server, 0)
        print(f"{min(server.origins)}{PATH}", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        await host.close()
        await runner.cleanup()


asyncio.run(main())
