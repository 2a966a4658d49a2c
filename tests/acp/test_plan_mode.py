"""Plan mode in editors: the plan as a call that switches the mode, its answers, and its steps as the plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outrider.log.questions import Answer as Given
from outrider.log.questions import PlanQuestion
from outrider.sync import default_log
from tests.acp.editor import Editor, allowing, introduced
from tests.acp.test_remote import AWAY, question_of
from tests.cli.asking import everywhere
from tests.modelserver import Answer, ModelServer

PLAN = "# Greet\n\n1. Write **hello.txt**.\n2. Read it.\n"
PROPOSAL = Answer("", (("c1", "ExitPlan", {"plan": PLAN}),))
WRITE = Answer("", (("c2", "Write", {"file_path": "hello.txt", "content": "Hello.\n"}),))


async def planned(editor: Editor, folder: Path) -> str:
    """Return a session in plan mode."""
    session = await editor.new(folder)
    await editor.ask("session/set_mode", sessionId=session, modeId="plan")
    return session


def modes(editor: Editor, session: str) -> tuple[Any, Any]:
    seen = editor.seen(session)
    return seen.mode, next(each["currentValue"] for each in seen.options if each["id"] == "mode")


@pytest.mark.parametrize(("option", "mode", "questions"), [("go", "ask", 2), ("edits", "edits", 1)])
async def test_an_approved_plan_switches_the_mode_and_becomes_the_plan(
    tmp_path: Path, option: str, mode: str, questions: int
) -> None:
    def answer(params: dict[str, Any]) -> Any:
        chosen = option if params["toolCall"].get("kind") == "switch_mode" else "once"
        return {"outcome": {"outcome": "selected", "optionId": chosen}}

    async with (
        ModelServer([PROPOSAL, WRITE, Answer("Done.")]) as server,
        introduced(handlers={"session/request_permission": answer}, **everywhere(server)) as editor,
    ):
        session = await planned(editor, tmp_path)
        assert await editor.prompt(session, "Greet.") == "end_turn"
        asked, *others = editor.asked_for("session/request_permission")
        assert [each["kind"] for each in asked["options"]] == [
            *("allow_once", "allow_always", "reject_once", "reject_once"),
        ]
        assert asked["toolCall"]["content"] == [{"type": "content", "content": {"type": "text", "text": PLAN}}]
        assert len(others) == questions - 1
        assert modes(editor, session) == (mode, mode)
        seen = editor.seen(session)
        assert [each["content"] for each in seen.plan] == ["Write **hello.txt**.", "Read it."]
        call = seen.call("ExitPlan")
        assert (call["kind"], call["status"]) == ("switch_mode", "completed")
        assert call["content"][0]["content"]["text"] == PLAN, "the plan stays in sight"
        live = seen.lasting()
        editor.forget(session)
        await editor.ask("session/close", sessionId=session)
        await editor.load(session, tmp_path)
        assert editor.seen(session).lasting() == live
    assert (tmp_path / "hello.txt").exists()


@pytest.mark.parametrize(("option", "requests"), [("change", 2), ("no", 1), ("nonsense", 1)])
async def test_a_plan_that_is_not_approved_leaves_the_mode(tmp_path: Path, option: str, requests: int) -> None:
    async with (
        ModelServer([PROPOSAL, Answer("What shall I change?")]) as server,
        introduced(handlers=allowing(option), **everywhere(server)) as editor,
    ):
        session = await planned(editor, tmp_path)
        assert await editor.prompt(session, "Greet.") == "end_turn"
        assert len(server.requests) == requests
        assert modes(editor, session) == ("plan", "plan")
        assert editor.seen(session).call("ExitPlan")["status"] == "failed"


async def test_a_cancelled_turn_approves_nothing(tmp_path: Path) -> None:
    async with (
        ModelServer([PROPOSAL]) as server,
        introduced(handlers=AWAY, **everywhere(server)) as editor,
    ):
        session = await planned(editor, tmp_path)
        request = editor.say(session, "Greet.")
        await editor.until(lambda: editor.asked_for("session/request_permission"), "the question")
        editor.tell("session/cancel", sessionId=session)
        assert await editor.answer(request) == {"stopReason": "cancelled"}
        assert modes(editor, session) == ("plan", "plan")


async def test_an_answer_from_elsewhere_counts_and_switches_the_mode_here(tmp_path: Path) -> None:
    async with (
        ModelServer([PROPOSAL, WRITE, Answer("Done.")]) as server,
        introduced(handlers=AWAY, capabilities={"session": {"notices": {}}}, **everywhere(server)) as editor,
    ):
        session = await planned(editor, tmp_path)
        request = editor.say(session, "Greet.")
        with default_log() as log:
            question = await question_of(editor, log)
            assert isinstance(question.body, PlanQuestion)
            assert question.body.plan == PLAN
            assert log.inbox.answer(question.id, Given("edits"), "on the web page")
        assert await editor.answer(request) == {"stopReason": "end_turn"}
        assert modes(editor, session) == ("edits", "edits")
    assert (tmp_path / "hello.txt").exists()
