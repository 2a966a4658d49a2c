"""`/tasks`: commands in the background, listed, followed and ended."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.chat.terminal import Terminal, answered_by
from tests.modelserver import ModelServer
from tests.streams import Answer

COMMAND = "echo first; until [ -e go ]; do sleep 0.02; done; echo second; until [ -e end ]; do sleep 0.02; done; exit 3"
CALL = ("c1", "Bash", {"command": COMMAND, "run_in_background": True, "access": "full"})


async def test_a_background_command_is_listed_followed_and_ended(project: Path) -> None:
    async with (
        ModelServer([Answer(calls=(CALL,)), Answer("It runs."), Answer(calls=(CALL,)), Answer("Two.")]) as server,
        Terminal("--permissions", "all", cwd=project, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("/tasks")
        await terminal.wait_for("Nothing runs in the background.")
        terminal.say("Start it")
        await terminal.wait_for("It runs.")
        await terminal.wait_for_prompt()
        await terminal.wait_for(re.compile(r"claude\S+ · all .*· 1 task"))
        terminal.say("/tasks")
        await terminal.wait_for("   1  running")
        terminal.say("/tasks 1")
        await terminal.wait_for("Following command 1: Esc stops, and it goes on.")
        assert "goes on. /tasks" not in terminal.screen, "no command can be typed now"
        await terminal.wait_for("first")
        (project / "go").touch()
        await terminal.wait_for("second")
        terminal.press("escape")
        await terminal.wait_for("Command 1 goes on. /tasks end 1 ends it.")
        await terminal.wait_for_prompt()
        terminal.say("/tasks 1")
        await terminal.wait_for(lambda: terminal.transcript.count("Following command 1") == 2)
        (project / "end").touch()
        await terminal.wait_for("Command 1 has ended. Exit code 3.")
        await terminal.wait_for_prompt()
        (project / "end").unlink()
        terminal.say("Again")
        await terminal.wait_for("Two.")
        await terminal.wait_for_prompt()
        terminal.say("/tasks end 2")
        await terminal.wait_for("Command 2 was ended.")
        terminal.say("/tasks end 3")
        await terminal.wait_for("There is no background command 3")
        terminal.say("/tasks what")
        await terminal.wait_for("Write /tasks, /tasks N, or /tasks end N")
