"""MCP servers as the user is shown them: every field, and the command line of a program."""

from __future__ import annotations

import os
from pathlib import Path

from outrider.coding.consent.command_line import CommandLine, project_line
from outrider.mcp.servers import McpServer, StdioServer


def server_fields(server: McpServer) -> list[tuple[str, str]]:
    """Return every value of a server, by name."""
    if not isinstance(server, StdioServer):
        return [("url", server.url), *((f"header {name}", value) for name, value in server.headers.items())]
    return [
        ("command", " ".join((server.command, *server.args))),
        *((f"variable {name}", value) for name, value in server.env.items()),
        ("starts in", str(server.cwd or ".")),
    ]


def server_line(server: StdioServer, project: Path) -> CommandLine:
    """Return the command line of a program. A folder of its own, in which it starts, belongs to it."""
    cwd = os.fspath(server.cwd) if server.cwd else ""
    texts = [server.command, *server.args, *(f"{name}={value}" for name, value in server.env.items())]
    return project_line(texts, project, cwd="" if cwd == str(project) else cwd)
