"""Questions of the model in the chat: the real program in a terminal, its model, and another process."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from outrider.log.entries import Asked, Decided
from outrider.log.questions import Answer as Given
from outrider.log.questions import ChoiceQuestion
from outrider.sync import default_log
from tests.cli.chat.terminal import Terminal, answered_by, until
from tests.modelserver import ModelServer
from tests.streams import Answer

COLOUR = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [{"label": "red", "description": "as the logo"}, {"label": "blue"}],
}
PARTS = {"question": "Which parts?", "options": [{"label": "door"}, {"label": "roof"}], "multiSelect": True}


def asking(*questions: object) -> Answer:
    return Answer("", (("call_1", "AskUser", {"questions": list(questions)}),))


async def asked(terminal: Terminal, said: str = "Paint it.") -> None:
    await terminal.wait_for_prompt()
    if said:
        terminal.say(said)
    await terminal.wait_for("esc decline")


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}])
async def test_choices_are_made_and_the_model_and_the_person_read_them(
    project: Path, environment: dict[str, str]
) -> None:
    async with (
        ModelServer([asking(COLOUR, PARTS), Answer("Painted.")]) as server,
        Terminal(cwd=project, **answered_by(server), **environment) as terminal,
    ):
        await asked(terminal)
        assert re.search(r"^❯ 1 red\n    as the logo\n  2 blue\n  3 Something else", terminal.screen, re.M)
        assert max(map(len, terminal.screen.splitlines())) <= 80
        terminal.press("down")
        await terminal.wait_for("❯ 2 blue")
        terminal.press("enter")
        await terminal.wait_for(re.compile(r"\(2 of 2\)\n  Which parts\?.*esc decline", re.S))
        terminal.press("2")
        await terminal.wait_for("[x] 2 roof")
        terminal.press("enter")
        await terminal.wait_for("Painted.")
        await terminal.wait_for_prompt()
        shown = "✓ AskUser(Colour, Which parts?)\n    Which colour? → blue\n    Which parts? → roof\n"
        assert shown in terminal.transcript
        assert "esc decline" not in terminal.screen
        assert "Which colour? → blue\\nWhich parts? → roof" in server.requests[-1].body.decode()
    with default_log() as log:
        (session,) = log.sessions()
        entries = [each.entry for each in log.records(session.id)]
        (asked_for,) = [each for each in entries if isinstance(each, Asked)]
        (decided,) = [each for each in entries if isinstance(each, Decided) and each.question]
        assert (decided.allowed, decided.by, decided.question) == (True, "in the terminal", asked_for.id)


async def test_escape_declines_and_the_turn_goes_on(project: Path) -> None:
    async with (
        ModelServer([asking(COLOUR), Answer("I will take red.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await asked(terminal)
        terminal.press("escape")
        await terminal.wait_for("I will take red.")
        assert "The user declined to answer." in server.requests[-1].body.decode()
        assert "The user declined to answer." in terminal.flowing


async def test_an_answer_from_elsewhere_comes_first_and_closes_the_picker(project: Path) -> None:
    async with (
        ModelServer([asking(COLOUR), Answer("Painted.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await asked(terminal)
        with default_log() as log:
            await until(lambda: log.inbox.questions())
            (question,) = log.inbox.questions()
            assert isinstance(question.body, ChoiceQuestion)
            assert question.call_id == "call_1"
            assert log.inbox.answer(question.id, Given("answer", content={"q1": "pink"}), "on the web page")
            assert not log.inbox.answer(question.id, Given("decline"), "on the web page")
        await terminal.wait_for("Answered on the web page.")
        await terminal.wait_for("Painted.")
        assert "Which colour? → pink" in terminal.transcript
        assert "Which colour? → pink" in server.requests[-1].body.decode()


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
async def test_after_a_kill_or_a_polite_end_the_question_is_asked_again(project: Path, end: signal.Signals) -> None:
    async with ModelServer([asking(COLOUR), Answer("Painted.")]) as server:
        async with Terminal(cwd=project, **answered_by(server)) as terminal:
            await asked(terminal)
            os.kill(terminal.process.pid, end)
            await until(lambda: terminal.process.poll() is not None)
        with default_log() as log:
            (session,) = log.sessions()
            assert [each.text for each in log.questions()] == ["Which colour?"], "it waits without a process, too"
        async with Terminal("--resume", session.id[:8], cwd=project, **answered_by(server)) as terminal:
            await terminal.wait_for_prompt()
            terminal.say("/continue")
            await terminal.wait_for("esc decline")
            terminal.press("1")
            await terminal.wait_for("Painted.")
        assert "Which colour? → red" in server.requests[-1].body.decode()
        assert len(server.requests) == 2
