"""`outrider replay`: a recorded session again, or another model at each of its steps."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from outrider import Log, Session
from outrider.cli.replay import replay
from outrider.coding.config.settings import PermissionSettings, Settings
from outrider.coding.workbench import Workbench
from outrider.log.transfer import export, import_session
from outrider.sync import default_log
from outrider.testing import ScriptedModel, call
from tests.cli.program import outrider


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "notes.txt").write_text("one\n")
    return folder


@pytest.fixture
def session(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A session of the coding agent that has read a file."""
    monkeypatch.setenv("OUTRIDER_HOME", str(tmp_path / "home"))
    bench = Workbench(Settings(permissions=PermissionSettings(mode="all")), folder)
    model = ScriptedModel([call("Read", file_path=str(folder / "notes.txt")), "It says one."])

    async def record(log: Log) -> str:
        agent = bench.agent(model="demo").replace(model=model)
        async with Session.open(log, agent=agent, cwd=folder) as opened:
            await opened.run("What do the notes say?")
            return opened.id

    try:
        with default_log() as log:
            return asyncio.run(record(log))
    finally:
        bench.close()


def test_a_session_is_replayed_and_a_changed_file_is_named(
    session: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = outrider("replay", OUTRIDER_HOME=str(tmp_path / "home"))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith(f"{session[:8]}: 0 differences in ")
    assert replay([session[:6], "--tools", "run"]) == 0
    (folder / "notes.txt").write_text("two\n")
    capsys.readouterr()
    assert replay([session[:6]]) == 0  # results come from the log
    capsys.readouterr()
    assert replay([session[:6], "--tools", "run"]) == 1
    first, *rest = capsys.readouterr().out.splitlines()
    assert "result of Read, result.content[0].text" in first
    assert any(line.startswith("  - ") and "one" in line for line in rest)
    assert any(line.startswith("  + ") and "two" in line for line in rest)
    assert replay([session, "--tools", "run", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["difference"]["about"] == "result of Read"


def test_today_s_agent_is_compared_on_request(session: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert replay([session, "--strict"]) == 0
    (folder / "AGENTS.md").write_text("Answer in verse.\n")
    capsys.readouterr()
    assert replay([session, "--strict"]) == 1
    assert "request, system" in capsys.readouterr().out


def test_another_model_is_asked_at_each_step(session: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prompt = tmp_path / "prompt.md"
    prompt.write_text("Be brief.")
    assert replay([session, "--model", "demo", "--system", str(prompt)]) == 0
    out = capsys.readouterr().out
    assert "text instead of a call" in out
    assert "first divergence: turn 1" in out
    assert replay([session, "--model", "demo", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["turn"] for line in lines] == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nosuch"], "there is no session 'nosuch'"),
        (["--budget", "1"], "--system and --budget are for --model"),
        (["--model", "demo", "--tools", "run"], "no tool runs"),
        (["--model", "demo", "--system", "missing.md"], "missing.md cannot be read"),
        (["--model", "nosuch/model"], "nosuch"),
    ],
)
def test_wrong_usage_is_said(session: str, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert replay(arguments) == 2
    assert said in capsys.readouterr().err


def test_the_calls_of_another_user_s_session_do_not_run(session: str, capsys: pytest.CaptureFixture[str]) -> None:
    with default_log() as log:
        imported = import_session(log, export(log, session)).id
    assert replay([imported, "--tools", "run"]) == 2
    assert "its calls are not run again here" in capsys.readouterr().err
    assert replay([imported]) == 0
