"""The client with a real program of either era."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from outrider.mcp.client import Client
from outrider.mcp.protocol import ContentBlock
from outrider.mcp.servers import McpServer
from tests.mcp.starting import scripted

ERAS = ("modern", "legacy")


@asynccontextmanager
async def connected(server: McpServer, **options: Any) -> AsyncIterator[Client]:
    client = Client(server, **options)
    try:
        await client.connect()
        yield client
    finally:
        await client.close()


def text_of(result: Any) -> str:
    return "".join(msgspec.json.decode(block, type=ContentBlock).text for block in result.content)


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_connects_in_either_era(era: str) -> None:
    async with connected(scripted(era=era)) as client:
        agreed = client.agreement
        assert agreed is not None
        assert agreed.is_stateless is (era == "modern")
        assert agreed.version == ("2026-07-28" if era == "modern" else "2025-06-18")
        assert agreed.server_info.name == "scripted"
        assert agreed.instructions == "Be kind."


async def test_calls_a_tool(era: str) -> None:
    async with connected(scripted(era=era)) as client:
        assert text_of(await client.call_tool("echo", {"text": "hällo\u2028\n"})) == "hällo\u2028\n"
