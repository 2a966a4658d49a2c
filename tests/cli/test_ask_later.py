"""`outrider -p --ask-later`: the question waits in the log, is answered elsewhere, and the session goes on, once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider.log.log import Log
from outrider.sync import default_log
from tests.cli.asking import ask
from tests.cli.program import outrider
from tests.modelserver import Answer, ModelServer

APPEND = Answer(calls=(("c1", "Bash", {"command": "echo x >> made", "access": "full"}),))


@pytest.fixture
def log() -> Iterator[Log]:
    with default_log() as log:
        yield log


async def test_a_question_outlives_the_program_and_is_answered_in_the_terminal(tmp_path: Path, log: Log) -> None:
    async with ModelServer([APPEND, Answer("Done.")]) as server:
        asked = await ask(server, "-p", "Go", "--ask-later", cwd=tmp_path)
        assert (asked.returncode, asked.stdout) == (6, ""), asked.stderr
        (question,) = log.questions()
        assert f"outrider sessions answer {question.id[:8]} yes" in asked.stderr
        listed = outrider("sessions", "questions")
        assert listed.stdout.startswith(question.id[:8])
        assert "Bash(echo x >> made" in listed.stdout
        again = await ask(server, "sessions", "continue", log.sessions()[0].id[:8], cwd=tmp_path)
        assert (again.returncode, len(server.requests)) == (6, 1), "it still waits, and asks no model"
        wrong = outrider("sessions", "answer", question.id[:8], "perhaps")
        assert (wrong.returncode, "answer with one of: once: Allow once" in wrong.stderr) == (1, True)
        answered = outrider("sessions", "answer", question.id[:8], "yes")
        assert answered.returncode == 0, answered.stderr
        second = outrider("sessions", "answer", question.id, "no")
        assert (second.returncode, "was answered before, by" in second.stderr) == (1, True)
        assert not (tmp_path / "made").exists()
        done = await ask(server, "sessions", "continue", "--answered", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
        assert (await ask(server, "sessions", "continue", "--answered")).stdout == (
            "No session has an answer that it could go on with.\n"
        )
    assert (tmp_path / "made").read_text() == "x\n"
    assert log.questions() == []


async def test_a_denial_is_read_by_the_model_with_its_words(tmp_path: Path, log: Log) -> None:
    async with ModelServer([APPEND, Answer("As you wish.")]) as server:
        asked = await ask(server, "-p", "Go", "--ask-later", "--output-format", "json", cwd=tmp_path)
        (question,) = json.loads(asked.stdout)["questions"]
        assert outrider("sessions", "answer", question["id"], "no", "--words", "not today").returncode == 0
        await ask(server, "sessions", "continue", "--answered", cwd=tmp_path)
        assert b"the user does not want this: not today" in server.requests[-1].body
    assert not (tmp_path / "made").exists()


async def test_a_question_that_would_be_another_now_is_asked_anew(tmp_path: Path, log: Log) -> None:
    """What the user agreed to is what was shown: a link that leads out of the folder meanwhile is not covered."""
    folder, outside = tmp_path / "project", tmp_path / "outside"
    (folder / "first").mkdir(parents=True)
    outside.mkdir()
    (folder / "notes").symlink_to("first")
    edit = Answer(calls=(("c1", "Write", {"file_path": str(folder / "notes" / "a.txt"), "content": "x"}),))
    async with ModelServer([edit, Answer("Done.")]) as server:
        assert (await ask(server, "-p", "Go", "--ask-later", cwd=folder)).returncode == 6
        (question,) = log.questions()
        assert outrider("sessions", "answer", question.id, "yes").returncode == 0
        (folder / "notes").unlink()
        (folder / "notes").symlink_to(outside)
        done = await ask(server, "sessions", "continue", "--answered", cwd=folder)
    assert (done.returncode, list(outside.iterdir())) == (6, []), done.stderr
    assert [each.id for each in log.questions()] != [question.id]


def test_there_is_nothing_to_answer() -> None:
    assert outrider("sessions", "questions").stdout == "No question waits for an answer.\n"
    wrong = outrider("sessions", "answer", "abc", "yes")
    assert (wrong.returncode, "is no question that waits" in wrong.stderr) == (1, True)
    assert outrider("sessions", "continue").returncode == 1
