"""A terminal of a few columns: hardly readable, and no reason to end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.chat.terminal import EDITING, Terminal, until


@pytest.mark.sampled(2)
@pytest.mark.parametrize("columns", [1, 2, 3, 5])
async def test_the_chat_works_in_few_columns(project: Path, columns: int) -> None:
    async with Terminal("--model", "demo", cwd=project, columns=columns, lines=24) as terminal:
        await begun_editing(terminal, 1)
        terminal.say("/help")
        await begun_editing(terminal, 2)
        terminal.say("What's 2+2?")
        await begun_editing(terminal, 3)
        terminal.type("\x04")
        await until(lambda: terminal.process.poll() is not None, 90)
        assert "4" in terminal.flowing.split("?")[-1]
        assert b"Traceback" not in terminal.raw
        assert terminal.process.returncode == 0


async def begun_editing(terminal: Terminal, times: int) -> None:
    """Wait for the prompt, however it is broken into lines."""
    await until(lambda: terminal.raw.count(EDITING) >= times, 90)
