"""MCP servers that the tasks of a batch share."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from outrider import Agent, Log
from outrider.batches import batch
from outrider.coding.mcp.shared_servers import MOST_IDLE, SharedServers
from outrider.mcp import RunningServers, StdioServer
from outrider.testing import ScriptedModel, call
from tests.cli.program import outrider
from tests.mcp.starting import scripted


def counted(name: str, starts: Path) -> StdioServer:
    """Return a server that notes each of its starts in a file."""
    server = scripted(name)
    line = f"echo {name} >> {shlex.quote(str(starts))}; exec {shlex.join([server.command, *server.args])}"
    return msgspec.structs.replace(server, command="sh", args=["-c", line])


def lines(file: Path) -> list[str]:
    return file.read_text().split() if file.exists() else []


async def test_all_tasks_of_an_agent_use_one_server(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    said = call("mcp__shop__echo", text="hello")
    model = ScriptedModel(
        lambda request: said if len(request.messages) == 1 else request.messages[-1].tool_results[0].text
    )
    with Log(tmp_path / "log") as log:
        agent = Agent(model, mcp=[counted("shop", starts)])
        found = [result async for result in batch(agent, ["one", "two", "three", "four"], log=log, workers=2)]
    assert [result.status for result in found] == ["done"] * 4
    assert all("hello" in result.text for result in found)
    assert lines(starts) == ["shop"]


@pytest.mark.parametrize(("share", "starts_of_each"), [(True, 1), (False, 3)])
def test_tasks_in_one_folder_use_the_same_servers(tmp_path: Path, share: bool, starts_of_each: int) -> None:
    starts, config = tmp_path / "starts", tmp_path / "settings.toml"
    config.write_text(f"[mcp]\nshare = {str(share).lower()}\n")
    servers = [counted(name, starts) for name in ("shop", "desk")]
    entries = {server.name: {"command": server.command, "args": list(server.args)} for server in servers}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
    tasks = [{"id": f"t{number}", "prompt": f"What is {number}+1?"} for number in range(3)]
    (tmp_path / "tasks.jsonl").write_text("\n".join(map(json.dumps, tasks)))
    ended = outrider(
        *("batch", "tasks.jsonl", "-o", "results.jsonl", "--model", "demo", "--workers", "1"),
        cwd=tmp_path,
        OUTRIDER_HOME=str(tmp_path / "home"),
        OUTRIDER_CONFIG=str(config),
    )
    assert ended.returncode == 0, ended.stderr
    assert sorted(lines(starts)) == ["desk"] * starts_of_each + ["shop"] * starts_of_each


class Ends(RunningServers):
    """Servers that are not started, and note their end."""

    is_over = False

    def close(self) -> None:
        self.is_over = True


def test_servers_run_on_for_the_next_session_in_a_few_folders(tmp_path: Path) -> None:
    def taken(name: str, servers: Sequence[StdioServer] = (StdioServer("a", "true"),)) -> RunningServers:
        (tmp_path / name).mkdir(exist_ok=True)
        return shared.take(tmp_path / name, servers, lambda: Ends(servers))

    shared = SharedServers()
    first = taken("first")
    assert taken("first", [StdioServer("a", "true", before_start=lambda: "")]) is first  # only the check is another
    assert taken("first", [StdioServer("a", "true", env={"A": "1"})]) is not first
    shared.give_back(first)
    others = [taken(f"other{number}") for number in range(MOST_IDLE + 1)]
    for servers in others:
        shared.give_back(servers)
    assert [servers.is_over for servers in others if isinstance(servers, Ends)] == [True] + [False] * MOST_IDLE
    assert not isinstance(first, Ends) or not first.is_over  # another session still uses it
    assert taken("other1") is others[1]
    (tmp_path / "other2").rmdir()
    shared.give_back(others[1])
    assert isinstance(others[2], Ends)
    assert others[2].is_over
    shared.give_back(others[2])  # a session that ends late does no harm
    shared.close()
