"""Descriptions of servers, and the pool that holds them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from outrider.errors import ConfigError, McpError
from outrider.mcp.servers import HttpServer, StdioServer
from tests.mcp.starting import Pool, scripted


def test_descriptions_show_no_secrets() -> None:
    assert "hunter2" not in repr(StdioServer("a", "run", env={"KEY": "hunter2"}))
    assert "hunter2" not in repr(HttpServer("a", "https://x", {"Authorization": "Bearer hunter2"}))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StdioServer("", "run"), "1 to 33 characters"),
        (lambda: StdioServer("x" * 60, "run"), "1 to 33 characters"),
        (lambda: StdioServer("a", ""), "name the program to start"),
        (lambda: HttpServer("a", "file:///etc/passwd"), "must begin with https:// or http://"),
        (lambda: Pool(StdioServer("a b", "run"), StdioServer("a_b", "run")), "'a b' and 'a_b'"),
    ],
)
def test_wrong_descriptions_are_refused(make, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigError, match=message):
        make()


async def test_a_slow_server_does_not_delay_the_others() -> None:
    async with asyncio.timeout(60):
        pool = Pool(scripted("slow", delay=600), scripted("quick"))
        pool.start()
        try:
            while not pool.tools():
                await asyncio.sleep(0.01)
            assert (await pool.call("mcp__quick__echo", text="hi")).text == "hi"
            assert [each.state for each in pool.statuses()] == ["starting", "ready"]
            assert not await pool.settled(timeout=0.01)
            with pytest.raises(McpError, match="slow is not ready yet"):
                pool.client("slow")
            with pytest.raises(McpError, match="The servers are: slow, quick"):
                pool.client("other")
            assert [client.server.name for client in pool.ready()] == ["quick"]
        finally:
            await pool.close()


async def test_a_failed_server_can_be_started_again(tmp_path: Path) -> None:
    program = tmp_path / "server"
    async with Pool(StdioServer("late", str(program))) as pool:
        assert [each.state for each in pool.statuses()] == ["failed"]
        real = scripted()
        program.write_text(f"#!/bin/sh\nexec {real.command} {' '.join(real.args[:3])} '{real.args[3]}'\n")
        program.chmod(0o700)
        await pool.restart("late")
        assert (await pool.call("mcp__late__echo", text="hi")).text == "hi"
        with pytest.raises(McpError, match="The servers are: late"):
            await pool.restart("other")


async def test_an_empty_pool_is_settled() -> None:
    async with Pool() as pool:
        assert pool.tools() == ()


def test_sessions_without_servers_do_not_load_the_client() -> None:
    script = "import outrider, outrider.runtime.session, sys; print([m for m in sys.modules if 'outrider.mcp' in m])"
    assert subprocess.check_output([sys.executable, "-c", script], text=True).strip() == "[]"


async def test_an_old_server_is_asked_in_its_own_way_after_a_restart(tmp_path: Path) -> None:
    """Some old servers do not answer the newest first request, so that each restart would take ten seconds."""
    log, pids = tmp_path / "log", tmp_path / "pids"
    async with Pool(scripted(era="legacy", record=str(log), pid_file=str(pids))) as pool:
        os.kill(int(pids.read_text()), signal.SIGKILL)
        while (await pool.call("mcp__scripted__echo", text="hi")).text != "hi":
            await asyncio.sleep(0.01)
    methods = [json.loads(line)["method"] for line in log.read_text().splitlines()]
    assert [method for method in methods if method in ("server/discover", "initialize")] == [
        *("server/discover", "initialize"),
        "initialize",
    ]
