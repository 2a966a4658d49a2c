"""The status line that the user has set: a template, or a command."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from outrider.cli.chat import status_command
from outrider.cli.chat.status_command import StatusCommand, first_line
from outrider.cli.chat.status_line import BUILT_IN, branch_of, filled, fitted
from outrider.coding.config.loading import find_widenings
from outrider.coding.config.settings import Settings, flatten
from outrider.processes.programs import Programs
from tests.cli.chat.terminal import Terminal
from tests.coding.toolbox.shelling import new_nap, sleepers


async def test_a_template_of_the_user_replaces_the_line(project: Path, tmp_path: Path) -> None:
    config = tmp_path / "settings.toml"
    config.write_text('[chat]\nstatus_line = "<{mode}> · {cost} · in {folder} · {nonsense}"\n')
    settings = {"OUTRIDER_CONFIG": str(config), "HOME": str(project.parent)}
    async with Terminal("--model", "demo", cwd=project, **settings) as terminal:
        await terminal.wait_for_prompt()
        await terminal.wait_for("<ask> · in ~/project · {nonsense}")
        assert "permissions:" not in terminal.screen
        terminal.press("s-tab")
        await terminal.wait_for("<edits> · in ")


async def test_a_command_of_the_user_makes_the_line_and_reads_the_fields(project: Path, tmp_path: Path) -> None:
    config = tmp_path / "settings.toml"
    read = "import json, sys; fields = json.load(sys.stdin); print('~' + fields['mode'] + '~', chr(27) + '[2J')"
    config.write_text(f"[chat]\nstatus_command = {json.dumps(f'{sys.executable} -c {json.dumps(read)}')}\n")
    async with Terminal("--model", "demo", cwd=project, OUTRIDER_CONFIG=str(config)) as terminal:
        await terminal.wait_for_prompt()
        await terminal.wait_for("~ask~")
        assert "permissions: ask" not in terminal.screen


async def test_the_command_of_a_project_does_not_run_without_consent(project: Path) -> None:
    (project / ".outrider").mkdir()
    (project / ".outrider" / "settings.toml").write_text('[chat]\nstatus_command = "touch ran; echo ran"\n')
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await terminal.wait_for_prompt()
        terminal.say("What is 2+2?")
        await terminal.wait_for("4")
        await terminal.wait_for_prompt()
        await terminal.wait_for("permissions: ask")
    assert not (project / "ran").exists()


def test_a_project_needs_consent_for_both() -> None:
    user = flatten(Settings())
    for key in ("chat.status_line", "chat.status_command"):
        assert [each.key for each in find_widenings(user, {key: "x"})] == [key]
        assert find_widenings({**user, key: "x"}, {key: "x"}) == ()


def test_a_command_that_fails_or_hangs_or_floods_is_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_command, "SECONDS", 3.0)
    programs = Programs([tmp_path])
    assert first_line("echo no; exit 1", tmp_path, programs, b"") == ""
    assert first_line("true", tmp_path, programs, b"") == ""
    assert first_line("cat; echo; echo two", tmp_path, programs, b"one") == "one"
    assert first_line("head -c 3000000 /dev/zero | tr '\\0' x", tmp_path, programs, b"{}" * 100_000) == "x" * 4096
    nap = new_nap()
    assert first_line(f"sleep {nap} & sleep {nap}", tmp_path, programs, b"") == ""
    assert sleepers(nap) == []


async def test_the_command_runs_again_only_when_something_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_command, "PAUSE_SECONDS", 0.0)
    drawn: list[str] = []
    command = StatusCommand(
        "echo x >> runs; wc -l < runs", tmp_path, Programs([tmp_path]), lambda: drawn.append(command.line)
    )
    for fields in ({"mode": "ask"}, {"mode": "ask"}, {"mode": "all"}):
        command.update(fields)
        if command._task:
            await asyncio.wait([command._task])
    assert [each.strip() for each in drawn] == ["1", "2"]


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (120, "claude-5 · effort: high · permissions: ask · sandboxed · 2 tasks · context 12%/200k · $0.0123"),
        (80, "claude-5 · high · ask · sandboxed · 2 tasks · context 12%/200k · $0.0123"),
        (60, "claude-5 · high · ask · sandboxed · 2 tasks · 12% · $0.0123"),
        (40, "claude-5 · ask · 2 tasks · 12% · $0.0123"),
        (30, "claude-5 · ask · 12% · $0.0123"),
        (24, "claude-5 · ask · $0.0123"),
        (20, "ask · 12% · $0.0123"),
        (13, "ask · $0.0123"),
        (9, "$0.0123"),
        (4, "$0.…"),
    ],
)
def test_the_cost_stays_in_a_narrow_line(width: int, shown: str) -> None:
    fields = {"model": "claude-5", "effort": "high", "mode": "ask", "sandbox": "sandboxed", "tasks": "2 tasks"}
    fields |= {"context": "context 12%/200k", "used": "12%", "cost": "$0.0123"}
    assert fitted(BUILT_IN, fields, width) == shown
    if width == 20:
        assert fitted("in {folder} · {cost} · {mode}", fields | {"folder": "/home/someone"}, width) == "$0.0123"


def test_a_field_cannot_move_the_cursor_and_braces_are_no_code() -> None:
    assert filled("{model} {model.__class__}", {"model": "a\x1b[2Jb\nc"}) == "a⟨ESC⟩[2Jb⏎c {model.__class__}"
    assert len(filled("x" * 10_000, {})) == 500


def test_the_branch_is_read_without_git(tmp_path: Path) -> None:
    assert branch_of(tmp_path / "nowhere") in ("", branch_of(tmp_path))
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/fix/login\n")
    assert branch_of(tmp_path / "src") == "fix/login"
