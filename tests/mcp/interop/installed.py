"""The servers that `make mcp-servers` installs: where they are. Without one, its tests are skipped."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from outrider.mcp.servers import StdioServer
from tests.acceptance_index import CHROMIUM

FOLDER = Path(sys.prefix) / "mcp-servers"
MISSING = "MCP server not installed (`make mcp-servers` does that)"


def from_npm(name: str, package: str, entry: str, *arguments: str) -> StdioServer:
    """Return a server from npm; skips the test if it is not installed."""
    node, script = FOLDER / "node", FOLDER / "npm" / "node_modules" / package / entry
    if not node.exists() or not script.exists():
        pytest.skip(f"{MISSING}: {package}")
    return StdioServer(name, node.read_text().strip(), [str(script), *arguments])


def from_pypi(name: str, package: str, *arguments: str) -> StdioServer:
    """Return a server from PyPI; skips the test if it is not installed."""
    program = FOLDER / package / "bin" / package
    if not program.exists():
        pytest.skip(f"{MISSING}: {package}")
    return StdioServer(name, str(program), arguments)


def chromium() -> str:
    """Return the path of Chromium; skips the test if it is not installed."""
    found = next(filter(None, map(shutil.which, CHROMIUM)), "")
    if not found:
        pytest.skip(f"{MISSING}: Chromium, which the server drives")
    return found
