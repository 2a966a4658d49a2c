"""What was agreed to is checked before every start, with real programs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from outrider.coding.consent.item import Consents
from outrider.coding.extensions import Extensions
from outrider.coding.front_end import FrontEnd
from outrider.coding.mcp.server_files import find_servers
from outrider.coding.permissions.question import Answer, Question
from outrider.coding.sandbox.bubblewrap import Bubblewrap
from outrider.coding.workbench import Workbench
from outrider.environment import config_file, data_folder
from outrider.mcp.pool import ServerPool
from outrider.mcp.server_limits import Restarts, ServerHost
from outrider.runtime.events import Notice
from outrider.testing import call
from tests.coding.hooks.test_hooks import run, trust, write_hooks
from tests.coding.test_found_skills import home, project
from tests.coding.test_workbench import bench_in
from tests.mcp.starting import HERE

__all__ = ["home", "project"]

RESTARTS = Restarts(first_pause=0.01, longest_pause=0.02)


def add_server(project: Path, **fields: Any) -> Path:
    """Write a server that is a script of the project, and agree to it."""
    script = project / "srv" / "server.py"
    script.parent.mkdir(exist_ok=True)
    script.write_text((HERE / "scripted_server.py").read_text())
    options = json.dumps({"pid_file": str(project / "pids")})
    entry = {"command": sys.executable, "args": ["-S", "-E", "srv/server.py", options], **fields}
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"own": entry}}))
    agree(project)
    return script


def agree(project: Path) -> None:
    Consents(data_folder()).give(find_servers(project).waiting)


async def until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_server_that_was_changed_is_not_started_again_and_the_user_is_told_once(
    home: Path, project: Path
) -> None:
    script = add_server(project)
    notices: list[str] = []
    pool = ServerPool(find_servers(project).servers, on_notice=notices.append, host=ServerHost(restarts=RESTARTS))
    try:
        pool.start()
        assert await pool.settled(60)
        assert [each.state for each in pool.statuses()] == ["ready"]
        script.write_text(f"open({str(project / 'evil')!r}, 'w')")
        os.kill(int((project / "pids").read_text().split()[-1]), signal.SIGKILL)
        await until(lambda: pool.statuses()[0].state == "failed")
        told = [note for note in notices if "outrider trust" in note]
        assert len(told) == 1
        assert "srv/server.py changed since you agreed to it" in told[0]
        assert not (project / "evil").exists()
        await pool.restart("own")  # not by hand either
        assert pool.statuses()[0].state == "failed"
        assert not (project / "evil").exists()
        script.write_text((HERE / "scripted_server.py").read_text() + "\n# better\n")
        agree(project)
        await pool.restart("own")
        assert pool.statuses()[0].state == "ready", "what the user agrees to meanwhile may start"
    finally:
        await pool.close()


async def test_a_server_that_is_the_same_is_started_again(home: Path, project: Path) -> None:
    add_server(project)
    pool = ServerPool(find_servers(project).servers, host=ServerHost(restarts=RESTARTS))
    try:
        pool.start()
        assert await pool.settled(60)
        first = int((project / "pids").read_text().split()[-1])
        os.kill(first, signal.SIGKILL)
        await until(lambda: len((project / "pids").read_text().split()) > 1 or _pid(project) != first)
        await until(lambda: pool.statuses()[0].state == "ready")
    finally:
        await pool.close()


def _pid(project: Path) -> int:
    return int((project / "pids").read_text().split()[-1])


async def test_a_guard_that_was_changed_in_the_session_denies_and_does_not_run(home: Path, project: Path) -> None:
    (project / "tools").mkdir()
    (project / "tools/guard.sh").write_text("exit 0")
    write_hooks(project, "PreToolUse", "sh tools/guard.sh")
    trust(project)
    bench = bench_in(project)
    (project / "tools/guard.sh").write_text("touch evil; exit 0")
    events: list[Any] = []
    steps = [call("Read", file_path="a.txt"), call("Read", file_path="a.txt"), "Fine."]
    result = await run(bench, steps, events)
    for message in (result.conversation[2], result.conversation[4]):
        assert "tools/guard.sh changed since you agreed to it" in message.tool_results[0].text
    notices = [each.text for each in events if isinstance(each, Notice)]
    assert sum("outrider trust" in text for text in notices) == 1
    assert not (project / "evil").exists()


async def test_a_hook_that_is_no_guard_and_was_changed_is_left_out(home: Path, project: Path) -> None:
    (project / "told.sh").write_text("touch good")
    write_hooks(project, "PostToolUse", "sh told.sh")
    trust(project)
    bench = bench_in(project)
    (project / "told.sh").write_text("touch evil")
    (project / "a.txt").write_text("of a")
    events: list[Any] = []
    result = await run(bench, [call("Read", file_path="a.txt"), "Fine."], events)
    assert "of a" in result.conversation[2].tool_results[0].text
    assert any("outrider trust" in each.text for each in events if isinstance(each, Notice))
    assert not (project / "evil").exists()
    assert not (project / "good").exists()


async def test_a_hook_may_write_its_log_and_runs_again(home: Path, project: Path) -> None:
    (project / "tools").mkdir()
    (project / "tools/told.sh").write_text("echo told >> tools/told.log")
    write_hooks(project, "PreToolUse", "sh tools/told.sh >> out.txt")
    trust(project)
    (project / "a.txt").write_text("of a")
    steps = [call("Read", file_path="a.txt"), call("Read", file_path="a.txt"), "Fine."]
    result = await run(bench_in(project), steps)
    assert not result.conversation[4].tool_results[0].is_error
    assert (project / "tools/told.log").read_text() == "told\ntold\n"
    assert not Extensions(project).waiting


def asking(questions: list[Question]) -> FrontEnd:
    async def ask(question: Question) -> Answer:
        questions.append(question)
        return Answer("no", "Not this, but go on.")

    return FrontEnd(ask)


@pytest.mark.parametrize("tool", ["Write", "Bash"])
@pytest.mark.parametrize("kind", ["hook", "server", "own hook"])
async def test_the_model_does_not_rewrite_what_runs_without_a_question(
    home: Path, project: Path, tool: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_SANDBOX", "auto")
    (project / "tools").mkdir()
    (project / "tools/x.py").write_text("pass")
    servers: tuple[Any, ...] = ()
    if kind == "hook":
        write_hooks(project, "Stop", "python3 tools/x.py")
        trust(project)
    elif kind == "own hook":
        own = config_file().parent
        own.mkdir(parents=True, exist_ok=True)
        write_hooks(own.parent, "Stop", '"$CLAUDE_PROJECT_DIR"/tools/x.py || true', f"{own.name}/hooks.json")
    else:
        (project / ".mcp.json").write_text('{"mcpServers": {"a": {"command": "python3", "args": ["tools/x.py"]}}}')
        agree(project)
        servers = find_servers(project).servers
    settings = bench_in(project, permissions__mode="edits").settings
    questions: list[Question] = []
    bench = Workbench(settings, project, servers=servers, front_end=asking(questions))
    calls: dict[str, Any] = {
        "Write": call("Write", file_path="tools/x.py", content="evil"),
        "Bash": call("Bash", command="echo evil > tools/x.py", access="write", description="x"),
    }
    runs_at_once = isinstance(bench._tools.sandbox, Bubblewrap)  # Landlock asks once a session about `write`
    free = call("Bash", command="echo x > free.txt", access="write", description="x")
    await run(bench, [calls[tool], free, call("Write", file_path="other.txt", content="x"), "Fine."])
    assert (project / "free.txt").exists() == runs_at_once, "without a sandbox, the person is asked"
    assert (project / "tools/x.py").read_text() == "pass"
    assert (project / "other.txt").exists(), "the rest of the folder may be edited"
    if tool == "Write":
        assert "is run by a hook or an MCP server" in questions[0].reason


async def test_commands_in_the_sandbox_cannot_change_what_runs(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_SANDBOX", "auto")
    (project / "tools").mkdir()
    (project / "tools/x.py").write_text("pass")
    write_hooks(project, "Stop", "python3 tools/x.py")
    trust(project)
    bench = bench_in(project)
    try:
        if not isinstance(bench._tools.sandbox, Bubblewrap):
            pytest.skip("bubblewrap does not work here; Landlock asks before a command may write")
        shell = bench._tools.shell(bench.workspace)
        argv = shell.argv("echo evil > tools/x.py; mv tools away; echo x > free.txt", "mark", "write")
        await asyncio.to_thread(subprocess.run, argv, cwd=project, check=False, capture_output=True)
    finally:
        bench.close()
    assert (project / "free.txt").exists()
    assert (project / "tools/x.py").read_text() == "pass"
