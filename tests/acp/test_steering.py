"""A prompt during a prompt: it steers the turn, is answered by it, and can be cancelled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.acp.editor import introduced
from tests.cli.asking import everywhere
from tests.modelserver import Answer, Held, ModelServer

LOOK = Answer("I look.", (("c1", "Bash", {"command": "until [ -e go ]; do sleep 0.02; done"}),))
ALL = ("--permissions", "all")


async def looking(editor: Any, session: str) -> int:
    """Begin a turn, and wait until its command runs."""
    first: int = editor.say(session, "Look")
    await editor.until(lambda: "in_progress" in str(editor.seen(session).updates), "a running command")
    return first


async def test_a_prompt_reaches_the_model_after_the_results_of_the_turn(tmp_path: Path) -> None:
    async with ModelServer([LOOK, Answer("In French.")]) as server, introduced(*ALL, **everywhere(server)) as editor:
        session = await editor.new(tmp_path)
        first = await looking(editor, session)
        second = editor.say(session, "Answer in French.")
        await editor.ask("session/set_mode", sessionId=session, modeId="all")  # the prompt before it was taken
        (tmp_path / "go").touch()
        assert await editor.answer(first) == {"stopReason": "end_turn"}
        assert await editor.answer(second) == {"stopReason": "end_turn"}
        assert len(server.requests) == 2
        last = server.requests[-1].json["messages"][-1]
        assert "tool_result" in str(last)
        assert "Answer in French." in str(last)


async def test_a_queued_prompt_is_cancelled_alone(tmp_path: Path) -> None:
    async with ModelServer([LOOK, Answer("Seen.")]) as server, introduced(*ALL, **everywhere(server)) as editor:
        session = await editor.new(tmp_path)
        first = await looking(editor, session)
        second = editor.say(session, "Answer in French.")
        await editor.ask("session/set_mode", sessionId=session, modeId="all")
        editor.tell("$/cancel_request", requestId=second)
        assert await editor.answer(second) == {"stopReason": "cancelled"}
        (tmp_path / "go").touch()
        assert await editor.answer(first) == {"stopReason": "end_turn"}
        assert "French" not in str(server.requests[-1].json["messages"])


@pytest.mark.parametrize("held", [False, True])
async def test_a_cancel_of_the_turn_cancels_what_is_queued(tmp_path: Path, held: bool) -> None:
    replies = [Held(Answer("A long story of many words")) if held else LOOK, Answer("Yes.")]
    async with ModelServer(replies) as server, introduced(*ALL, **everywhere(server)) as editor:
        session = await editor.new(tmp_path)
        if held:
            first = editor.say(session, "Tell me a story")
            await editor.until(lambda: "A long" in editor.seen(session).text(), "a beginning")
        else:
            first = await looking(editor, session)
        second = editor.say(session, "Answer in French.")
        await editor.ask("session/set_mode", sessionId=session, modeId="all")
        editor.tell("session/cancel", sessionId=session)
        assert await editor.answer(first) == {"stopReason": "cancelled"}
        assert await editor.answer(second) == {"stopReason": "cancelled"}
        assert await editor.prompt(session, "Are you there?") == "end_turn"
        assert "French" not in str(server.requests[-1].json["messages"]), "the editor still has it"
