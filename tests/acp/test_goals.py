"""`/goal` in an editor."""

from __future__ import annotations

from pathlib import Path

from tests.acp.editor import introduced
from tests.cli.asking import everywhere
from tests.modelserver import Answer, ModelServer

COMMAND = "echo tried >> tries; test $(wc -l < tries) -ge 2"


async def test_a_goal_is_pursued_and_shown(tmp_path: Path) -> None:
    async with (
        ModelServer([Answer("First."), Answer("Second.")]) as server,
        introduced(capabilities={"session": {"notices": {}}}, **everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        seen = editor.seen(session)
        await editor.prompt(session, "/goal")
        assert "There is no goal." in seen.text()
        assert await editor.prompt(session, f"/goal {COMMAND}") == "end_turn"
        assert [each for each in seen.notices if each.startswith("Goal")] == [
            f"Goal not reached (check 1): Exit code 1. — {COMMAND}",
            f"Goal reached (check 2): {COMMAND}",
        ]
        assert len(server.requests) == 2
