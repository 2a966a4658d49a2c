"""`/goal`, `/cost` with a budget, and the share of the cache, in the chat."""

from __future__ import annotations

from pathlib import Path

from tests.cli.chat.terminal import Terminal, answered_by, at_the_prompt_with
from tests.modelserver import ModelServer
from tests.streams import Answer

COMMAND = "echo tried >> tries; test $(wc -l < tries) -ge 3"


async def test_a_goal_is_pursued_shown_and_ended_and_the_budget_is_told(project: Path) -> None:
    replies = [Answer(f"Try {number}.") for number in (1, 2, 3)]
    async with (
        ModelServer([*replies, Answer("Hello.")]) as server,
        Terminal(cwd=project, **answered_by(server), OUTRIDER_CACHE="1h") as terminal,
    ):
        await at_the_prompt_with(terminal, "/goal", f"/goal {COMMAND}")
        assert "There is no goal." in terminal.transcript
        assert terminal.transcript.count("✗ Goal not reached") == 2
        assert "✓ Goal reached (check 3)" in terminal.flowing
        assert len(server.requests) == 3
        await at_the_prompt_with(terminal, "/context")
        assert "of the input so far came from the provider's cache." in terminal.flowing
        assert b'"ttl":"1h"' in server.requests[0].body
        await at_the_prompt_with(terminal, "Hello", "/goal")
        assert terminal.transcript.count("Goal not reached") == 2, "it is over"
