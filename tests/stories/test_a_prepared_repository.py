"""A repository that was prepared for another agent works here without a change: skills, commands, hooks, a plugin."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.acp.editor import introduced
from tests.cli.asking import everywhere
from tests.cli.chat.terminal import Terminal, answered_by, at_the_prompt_with
from tests.cli.program import outrider
from tests.modelserver import ModelServer
from tests.streams import Answer

PREPARED = Path(__file__).parent / "prepared_repository"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "ferry"
    shutil.copytree(PREPARED, folder)
    (folder / ".git").mkdir()
    return folder


def call(number: int, name: str, **arguments: Any) -> tuple[str, str, dict[str, Any]]:
    return f"call_{number}", name, arguments


def sent(server: ModelServer, number: int) -> str:
    return json.dumps(server.requests[number].json, ensure_ascii=False)


def test_what_was_found_is_listed_and_programs_wait(repository: Path) -> None:
    skills = outrider("skills", cwd=repository)
    assert skills.returncode == 0, skills.stderr
    assert "changelog" in skills.stdout
    assert "notes:minutes" in skills.stdout
    commands = outrider("commands", cwd=repository)
    assert "/review" in commands.stdout
    assert "runs `ls src`" in commands.stdout
    assert "/notes:digest" in commands.stdout
    assert "not used until you agree" in outrider("hooks", cwd=repository).stdout
    plugins = outrider("plugins", cwd=repository)
    assert "server notebook: python3" in plugins.stdout
    assert "outrider trust" in plugins.stdout


async def test_a_script_calls_a_command_and_everything_works_together(repository: Path) -> None:
    trusted = await asyncio.to_thread(outrider, "trust", "--yes", cwd=repository)
    assert trusted.returncode == 0, trusted.stderr
    skill = repository / ".claude/skills/changelog"
    steps = [
        Answer(
            "", (call(1, "Read", file_path=str(skill / "SKILL.md")), call(2, "Read", file_path=str(skill / "style.md")))
        ),
        Answer("", (call(3, "Bash", command=f"sh {skill}/scripts/version.sh"),)),
        Answer("", (call(4, "Write", file_path="generated/times.txt", content="9:00"),)),
        Answer("", (call(5, "mcp__notebook__add_note", text="reviewed"),)),
        Answer("The times are sorted."),
    ]
    async with ModelServer(steps) as server:
        arguments = ("-p", "/review src/times.py order", "--permissions", "all", "--quiet")
        ended = await asyncio.to_thread(outrider, *arguments, cwd=repository, **everywhere(server))
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.strip() == "The times are sorted."
        first = sent(server, 0)
    for expected in (
        "Times are in minutes since midnight",
        "changelog: Write an entry of the changelog.",
        "notes:minutes: Write the minutes",
        "Review @src/times.py for order. These files are beside it: times.py",
        "DEPARTURES = [540, 600, 660]",
        "Today the harbour is closed.",
        "navigator",
        "mcp__notebook__add_note",
    ):
        assert expected in first, expected
    whole = sent(server, -1)
    assert "Begin each entry with a verb." in whole
    assert "version 7 of the timetable" in whole
    assert "a hook blocked it: generated/ is made by a script; change the script instead" in whole
    assert "noted in the notebook" in whole
    assert not (repository / "generated").exists()
    assert json.loads((repository / "stopped.json").read_text())["hook_event_name"] == "Stop"


async def test_one_changed_byte_of_a_script_asks_again(repository: Path) -> None:
    assert outrider("trust", "--yes", cwd=repository).returncode == 0
    assert "Nothing to agree to" in outrider("trust", "--yes", cwd=repository).stdout
    script = repository / ".claude/hooks/keep_generated.py"
    script.write_text(script.read_text() + "\n")
    assert "not used until you agree" in outrider("hooks", cwd=repository).stdout


@pytest.mark.long
async def test_the_chat_has_the_commands(repository: Path) -> None:
    async with (
        ModelServer([Answer("Sorted."), Answer("Done.")]) as server,
        Terminal("--permissions", "all", cwd=repository, columns=120, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "/review src/times.py order")
        assert "Review @src/times.py for order." in sent(server, 0)
        await at_the_prompt_with(terminal, "/changelog for the new times")
        assert "Its instructions:" in sent(server, 1)
        assert "outrider trust" in terminal.flowing
        await at_the_prompt_with(terminal, "/help")
        assert "/notes:digest" in terminal.transcript


async def test_an_editor_has_the_commands(repository: Path) -> None:
    async with ModelServer([Answer("Sorted.")]) as server, introduced(**everywhere(server)) as editor:
        opened = await editor.ask("session/new", cwd=str(repository), mcpServers=[])
        seen = editor.seen(opened["sessionId"])
        await editor.until(lambda: "review" in seen.commands, "the commands")
        assert {"init", "changelog", "notes:digest", "notes:minutes"} <= set(seen.commands)
        prompt = [{"type": "text", "text": "/changelog for the new times"}]
        ended = await editor.ask("session/prompt", sessionId=opened["sessionId"], prompt=prompt)
        assert ended["stopReason"] == "end_turn"
        assert "Add one line to CHANGELOG.md." in sent(server, 0)
