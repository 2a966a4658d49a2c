"""Servers that people use: files, git, time, fetch, and a browser."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from outrider.mcp.client import Client
from outrider.mcp.results import tool_result
from outrider.mcp.servers import McpServer
from outrider.tools.result import ToolResult
from tests.mcp.http_server import serving
from tests.mcp.interop.installed import chromium, from_npm, from_pypi


@asynccontextmanager
async def connected(server: McpServer) -> AsyncIterator[Client]:
    client = Client(server)
    try:
        await client.connect()
        yield client
    finally:
        await client.close()


async def call(client: Client, name: str, **arguments: object) -> ToolResult:
    return tool_result(await client.call_tool(name, arguments), name)


@asynccontextmanager
async def page(html: str) -> AsyncIterator[str]:
    async def show(request: web.Request) -> web.Response:
        return web.Response(text=html, content_type="text/html") if request.path == "/" else web.Response(status=404)

    application = web.Application()
    application.router.add_get("/{path:.*}", show)
    async with serving(application) as address:
        yield f"{address}/"


async def test_files(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("A note.\n")
    server = from_npm("files", "@modelcontextprotocol/server-filesystem", "dist/index.js", str(tmp_path))
    async with connected(server) as client:
        assert {"read_text_file", "write_file"} <= {tool.name for tool in await client.list_tools()}
        assert "note.txt" in (await call(client, "list_directory", path=str(tmp_path))).text
        assert "A note." in (await call(client, "read_text_file", path=str(tmp_path / "note.txt"))).text
        await call(client, "write_file", path=str(tmp_path / "new.txt"), content="Written.")
        assert (tmp_path / "new.txt").read_text() == "Written."
        outside = await call(client, "read_text_file", path="/etc/passwd")
        assert outside.is_error


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


async def test_git(repository: Path) -> None:
    (repository / "new.txt").write_text("x")
    async with connected(from_pypi("git", "mcp-server-git", "--repository", str(repository))) as client:
        assert "git_status" in {tool.name for tool in await client.list_tools()}
        assert "new.txt" in (await call(client, "git_status", repo_path=str(repository))).text


async def test_time() -> None:
    async with connected(from_pypi("time", "mcp-server-time", "--local-timezone=UTC")) as client:
        result = await call(client, "convert_time", source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo")
        assert "21:00" in result.text


async def test_fetch() -> None:
    server = from_pypi("fetch", "mcp-server-fetch", "--ignore-robots-txt", "--allow-private-ips")
    async with page("<h1>Heading</h1><p>Some text.</p>") as address, connected(server) as client:
        assert "Some text." in (await call(client, "fetch", url=address, raw=True)).text
        assert [prompt.name for prompt in await client.list_prompts()] == ["fetch"]


async def test_a_browser_returns_a_picture_of_a_page(tmp_path: Path) -> None:
    options = ("--headless", "--isolated", "--no-sandbox", "--output-dir", str(tmp_path))
    server = from_npm("browser", "@playwright/mcp", "cli.js", *options, "--executable-path", chromium())
    async with page("<h1 style='color:red'>A red page</h1>") as address, connected(server) as client:
        seen = await call(client, "browser_navigate", url=address)
        assert not seen.is_error, seen.text
        result = await call(client, "browser_take_screenshot", type="png")
        pictures = [each for each in result.attachments if (each.mime_type or "").startswith("image/")]
        assert len(pictures) == 1, result.text
        assert b"".join(pictures[0].chunks()).startswith(b"\x89PNG")
        await call(client, "browser_close")
