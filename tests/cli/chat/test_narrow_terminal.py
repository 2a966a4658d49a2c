"""A terminal of a few columns: hardly readable, and no reason to end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.chat.terminal import Terminal, until


@pytest.mark.sampled(2)
@pytest.mark.parametrize("columns", [1, 2, 3, 5])
async def test_the_chat_works_in_few_columns(project: Path, columns: int) -> None:
    async with Terminal("--model", "demo", cwd=project, columns=columns, lines=24) as terminal:
        await until(lambda: b"\x1b[?2004h" in terminal.raw)
        terminal.say("/help")
        terminal.say("What's 2+2?")
        await until(lambda: "4" in terminal.flowing.split("?")[-1] or b"demo model" in terminal.raw, 90)
        terminal.type("\x04")
        await until(lambda: terminal.process.poll() is not None, 90)
        assert b"Traceback" not in terminal.raw
        assert terminal.process.returncode == 0
