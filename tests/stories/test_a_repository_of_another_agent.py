"""Story 9: a repository that was prepared for another agent is opened in Neovim, and everything in it works.

The repository has a CLAUDE.md, skills, a command, a sub-agent, hooks in .claude/settings.json, a plugin and an
.mcp.json. The client is what CodeCompanion for Neovim says, message by message, from a program of its own
(`neovim_client.py`); the plugin itself needs a newer Neovim than the package registries have. The user agrees to hooks
and servers once, in a terminal. Then a command reviews an unsaved buffer, a hook keeps a generated file, the server of
the project draws a picture, and a skill writes the changelog. Leaving Neovim kills the agent; the session is loaded
again the next day.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.acp.seen import Seen
from tests.cli.asking import everywhere
from tests.cli.program import clean_environment, outrider
from tests.modelserver import ModelServer
from tests.streams import Answer

HERE = Path(__file__).parent
PREPARED = HERE / "prepared_repository"
UNSAVED = "DEPARTURES = [600, 540, 660]  # not saved yet\n"
SORTED = "DEPARTURES = [540, 600, 660]  # not saved yet\n"


def call(number: int, name: str, **arguments: Any) -> tuple[str, str, dict[str, Any]]:
    return f"toolu_{number:020}", name, arguments


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "ferry"
    shutil.copytree(PREPARED, folder)
    (folder / ".git").mkdir()
    servers = {"charts": {"command": sys.executable, "args": [str(HERE / "chart_server.py")]}}
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    agreed = outrider("trust", "--yes", cwd=folder)
    assert agreed.returncode == 0, agreed.stderr
    return folder


def work(repository: Path) -> list[Answer]:
    """What the model does: review and edit, a write that a hook refuses, a chart, and then a skill."""
    times = str(repository / "src" / "times.py")
    skill = repository / ".claude" / "skills" / "changelog"
    return [
        Answer("I read it.", (call(1, "Read", file_path=times),)),
        Answer("", (call(2, "Edit", file_path=times, old_string="600, 540", new_string="540, 600"),)),
        Answer("", (call(3, "Write", file_path="generated/times.txt", content="9:00"),)),
        Answer("", (call(4, "mcp__charts__draw", figures=[540, 600, 660]),)),
        Answer("The times are sorted."),
        Answer("", (call(5, "Read", file_path=str(skill / "style.md")),)),
        Answer("", (call(6, "Write", file_path="CHANGELOG.md", content="Sort the departures.\n"),)),
        Answer("The changelog has a line."),
    ]


async def drive(repository: Path, server: ModelServer, scenes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run the client to its end; what it saw, by scene."""
    agent = json.dumps([sys.executable, "-m", "outrider", "acp"])
    command = [sys.executable, str(HERE / "neovim_client.py"), agent, str(repository), json.dumps(scenes)]
    ended = await asyncio.to_thread(
        subprocess.run,
        command,
        env=clean_environment() | everywhere(server),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def seen_in(updates: list[dict[str, Any]]) -> Seen:
    seen = Seen()
    for update in updates:
        seen.take(update)
    return seen


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_a_prepared_repository_works_in_neovim_and_again_the_next_day(repository: Path) -> None:
    times = repository / "src" / "times.py"
    context = {"type": "resource", "resource": {"uri": f"file://{repository}/CLAUDE.md", "text": "the open file"}}
    scenes = [
        {"buffers": {str(times): UNSAVED}, "prompts": [[text("/review src/times.py order"), context]]},
        {"prompts": [[text("/changelog for the new times")]]},
    ]
    async with ModelServer(work(repository)) as server:
        today, tomorrow = await drive(repository, server, scenes)
        sent = [json.dumps(request.json, ensure_ascii=False) for request in server.requests]
    assert {"init", "review", "changelog", "notes:digest", "notes:minutes"} <= set(today["commands"])
    assert (today["stops"], tomorrow["stops"]) == (["end_turn"], ["end_turn"])
    what_the_model_was_told(sent)
    what_neovim_saw(repository, today)
    the_next_day(repository, today, tomorrow)


def what_the_model_was_told(sent: list[str]) -> None:
    """The instructions, the skills, the hook of the start, the command with its file, and the tools of both servers."""
    for expected in (
        "Times are in minutes since midnight",
        "changelog: Write an entry of the changelog.",
        "Today the harbour is closed.",
        "Review @src/times.py for order. These files are beside it: times.py",
        "the open file",
        "navigator",
        "mcp__charts__draw",
        "mcp__notebook__add_note",
    ):
        assert expected in sent[0], expected
    assert "not saved yet" in sent[1], "the model reads the buffer, not the file"
    assert "generated/ is made by a script; change the script instead" in sent[3]
    assert "A chart of 3 figures." in sent[4]
    assert "iVBORw0KGgo" in sent[4], "the picture of the server"
    assert "Add one line to CHANGELOG.md." in sent[5]
    assert "Begin each entry with a verb." in sent[6]


def what_neovim_saw(repository: Path, today: dict[str, Any]) -> None:
    """It was asked before the edit and before the call of the server; the hook decided about the rest."""
    titles = [asked["toolCall"]["title"] for asked in today["asked"]]
    assert len(titles) == 2, titles
    assert titles[0].startswith("Edit("), titles
    assert "draw" in titles[1], titles
    assert (repository / "src" / "times.py").read_text() == SORTED
    assert not (repository / "generated").exists()
    seen = seen_in(today["updates"])
    assert [call["status"] for call in seen.calls.values()] == ["completed", "completed", "failed", "completed"]
    assert seen.text().endswith("The times are sorted.")


def the_next_day(repository: Path, today: dict[str, Any], tomorrow: dict[str, Any]) -> None:
    """The agent was killed. The session is the same, shows the same, and goes on."""
    assert tomorrow["session"] == today["session"]
    before, again = seen_in(today["updates"]), seen_in(tomorrow["loaded"])
    assert list(again.calls) == list(before.calls)
    assert [each["status"] for each in again.calls.values()] == [each["status"] for each in before.calls.values()]
    assert again.text() == before.text()
    assert (repository / "CHANGELOG.md").read_text() == "Sort the departures.\n"
    assert seen_in(tomorrow["updates"]).text().endswith("The changelog has a line.")
