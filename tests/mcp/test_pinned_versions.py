"""A server whose version of the protocol is pinned is spoken to in that version, and in no other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outrider.coding.mcp.server_files import ServerEntry
from outrider.errors import ConfigError, McpError
from outrider.mcp.servers import HttpServer, StdioServer
from tests.mcp.starting import connected, scripted


def pinned(version: str, **options: Any) -> StdioServer:
    return msgspec.structs.replace(scripted(**options), protocol=version)


async def test_a_server_that_speaks_both_eras_is_spoken_to_in_the_pinned_version() -> None:
    async with connected(scripted(era="both")) as client:
        assert client.agreement is not None
        assert client.agreement.version == "2026-07-28", "without a pin the newest one"
    for version in ("2026-07-28", "2025-06-18"):
        async with connected(pinned(version, era="both")) as client:
            assert client.agreement is not None
            assert client.agreement.version == version
            assert await client.list_tools()


async def test_a_server_that_answers_with_another_version_is_refused() -> None:
    with pytest.raises(McpError, match=r"answers with version 2025-06-18 .*pins 2024-11-05; change or remove"):
        async with connected(pinned("2024-11-05", era="both")):
            pass
    with pytest.raises(McpError, match="supports other versions of the protocol: 2099-01-01"):
        async with connected(pinned("2026-07-28", versions=["2099-01-01"])):
            pass


def test_an_unknown_version_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ConfigError, match=r"protocol '2025-01-01'; it must be one of 2026-07-28, 2025-11-25"):
        StdioServer("time", "uvx", protocol="2025-01-01")
    with pytest.raises(ConfigError, match="protocol '1'"):
        HttpServer("docs", "https://example.org/mcp", protocol="1")


def test_a_file_can_pin_a_version(tmp_path: Path) -> None:
    def entry(**fields: Any) -> ServerEntry:
        return ServerEntry("time", json.loads(json.dumps({"command": "uvx", **fields})), "mcp.json: time")

    server = entry(protocol="2025-06-18").server({}, tmp_path, may_be_trusted=False)
    assert server.protocol == "2025-06-18"
    assert entry().server({}, tmp_path, may_be_trusted=False).protocol == ""
    with pytest.raises(ConfigError, match=r"^mcp\.json: time: .*it must be one of"):
        entry(protocol="7").server({}, tmp_path, may_be_trusted=False)
    with pytest.raises(ConfigError, match="protocol must be a text"):
        entry(protocol=7).server({}, tmp_path, may_be_trusted=False)


async def test_a_client_without_an_answerer_does_not_declare_that_it_answers(tmp_path: Path) -> None:
    async with connected(pinned("2026-07-28")) as client:
        assert client.agreement is not None
        assert client.agreement.meta is not None
        assert "elicitation" not in client.agreement.meta["io.modelcontextprotocol/clientCapabilities"]
