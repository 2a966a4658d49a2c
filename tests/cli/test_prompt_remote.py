"""`outrider -p` and another process: it watches, talks, stops, and answers where `-p` would deny."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outrider.coding.remote.live import live_events
from outrider.log.entries import RunStopped
from outrider.log.log import Log
from outrider.log.questions import Answer as Given
from outrider.log.questions import Question, Say, Stop
from outrider.sync import default_log
from tests.cli.asking import everywhere, running
from tests.cli.program import outrider
from tests.log import until_so
from tests.modelserver import Answer, Held, ModelServer

TOUCH = Answer(calls=(("c1", "Bash", {"command": "touch made"}),))


@pytest.fixture
def log() -> Iterator[Log]:
    with default_log() as log:
        yield log


async def listening(log: Log) -> str:
    """The session, once it takes messages."""
    await until(lambda: log.sessions() and log.inbox.is_listening(log.sessions()[0].id))
    return log.sessions()[0].id


async def until(condition: Callable[[], Any]) -> None:
    await until_so(condition, 60)


def has_stopped(log: Log) -> bool:
    """Whether a run has ended, for now."""
    return any(isinstance(record.entry, RunStopped) for record in log.records(log.sessions()[0].id))


async def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, error = await asyncio.to_thread(process.communicate, None, 60)
    return process.returncode, out, error


@pytest.mark.parametrize(("answer", "made"), [(Given("once"), True), (Given("no", "not here"), False)])
async def test_a_run_waits_for_an_answer_elsewhere(tmp_path: Path, log: Log, answer: Given, made: bool) -> None:
    async with ModelServer([TOUCH, Answer("Done.")]) as server:
        with running("-p", "Go", "--ask-later", "--wait", cwd=tmp_path, **everywhere(server)) as process:
            await until(lambda: log.questions() and has_stopped(log))  # an answer that comes sooner needs no waiting
            assert log.inbox.answer(log.questions()[0].id, answer, "on the web page")
            code, out, error = await ended(process)
    assert (code, out) == (0, "Done.\n")
    assert "outrider: waiting for an answer: Bash(touch made)" in error
    assert "outrider sessions answer" in error
    assert "· 2 turns ·" in error, "each turn counts once"
    assert ("There was no output." if made else "does not want this: not here") in error
    assert (tmp_path / "made").exists() is made


async def test_a_polite_end_leaves_the_question_open(tmp_path: Path, log: Log) -> None:
    """SIGTERM is no answer: the question waits, is answered while no process runs, and the session goes on with it."""
    async with ModelServer([TOUCH, Answer("Done.")]) as server:
        question = await terminated_while_asking(server, tmp_path, log)
        assert log.inbox.answer(question.id, Given("once"), "on the web page")
        assert not (tmp_path / "made").exists()
        with running("-p", "--continue", "--ask-later", "--wait", cwd=tmp_path, **everywhere(server)) as process:
            assert (await ended(process))[:2] == (0, "Done.\n")
        assert len(server.requests) == 2
    assert (tmp_path / "made").exists()


SLEEP = ("c2", "Bash", {"command": "sleep 600"})
DELEGATE = ("c3", "Task", {"description": "make it", "prompt": "Make the file."})


@pytest.mark.parametrize(
    "replies",
    [[Answer(calls=(*TOUCH.calls, SLEEP))], [Answer(calls=(DELEGATE,)), Answer(calls=(*TOUCH.calls, SLEEP))]],
    ids=["own", "of a sub-agent"],
)
async def test_a_polite_end_beside_other_work_leaves_the_question_open(
    replies: list[Answer], tmp_path: Path, log: Log
) -> None:
    """The run goes on while the question can be answered already: the end of the program is no answer then either."""
    async with ModelServer(replies) as server:
        question = await terminated_while_asking(server, tmp_path, log)
    root = log.sessions()[0].id
    assert (question.session != root) is (len(replies) == 2), "the sub-agent has asked"


async def terminated_while_asking(server: ModelServer, folder: Path, log: Log) -> Question:
    """End a run once its question can be answered. The question stays."""
    with running("-p", "Go", "--ask-later", "--wait", cwd=folder, **everywhere(server)) as process:
        await until(lambda: log.questions())
        (question,) = log.questions()
        process.terminate()
        assert (await ended(process))[0] == 143
    assert log.questions() == [question]
    return question


async def test_json_counts_a_run_that_waited_once(tmp_path: Path, log: Log) -> None:
    wanted = ("--ask-later", "--wait", "--output-format", "json")
    async with ModelServer([TOUCH, Answer("Done.")]) as server:
        with running("-p", "Go", *wanted, cwd=tmp_path, **everywhere(server)) as process:
            await until(lambda: log.questions())
            assert log.inbox.answer(log.questions()[0].id, Given("once"), "on the web page")
            code, out, _ = await ended(process)
    assert (code, json.loads(out)["status"], json.loads(out)["turns"]) == (0, "done", 2)


def test_waiting_needs_questions_that_wait() -> None:
    wrong = outrider("-p", "Go", "--wait")
    assert (wrong.returncode, "write --ask-later --wait" in wrong.stderr) == (2, True)


async def test_without_the_option_nothing_is_asked(tmp_path: Path, log: Log) -> None:
    async with ModelServer([TOUCH, Answer("Done.")]) as server:
        with running("-p", "Go", cwd=tmp_path, **everywhere(server)) as process:
            assert (await ended(process))[0] == 0
        assert b"there is no terminal to ask" in server.requests[-1].body
    assert not (tmp_path / "made").exists()


CHOOSE = Answer(calls=(("c1", "AskUser", {"questions": [{"question": "Which colour?"}]}),))


async def test_a_question_of_the_model_waits_for_an_answer_elsewhere(tmp_path: Path, log: Log) -> None:
    async with ModelServer([CHOOSE, Answer("Done.")]) as server:
        with running("-p", "Go", "--ask-later", "--wait", cwd=tmp_path, **everywhere(server)) as process:
            await until(lambda: log.questions() and has_stopped(log))
            answer = Given("answer", content={"q1": "red"})
            assert log.inbox.answer(log.questions()[0].id, answer, "on the web page")
            code, out, error = await ended(process)
        assert "Which colour? → red" in server.requests[-1].body.decode()
    assert (code, out) == (0, "Done.\n")
    assert "outrider: waiting for an answer: Which colour?" in error


async def test_without_the_option_the_model_hears_that_nobody_can_answer(tmp_path: Path, log: Log) -> None:
    async with ModelServer([CHOOSE, Answer("I take red.")]) as server:
        with running("-p", "Go", cwd=tmp_path, **everywhere(server)) as process:
            code, out, _ = await ended(process)
        assert b"Nobody can answer: no person is connected" in server.requests[-1].body
    assert (code, out) == (0, "I take red.\n")


async def test_a_run_can_be_watched_and_steered(tmp_path: Path, log: Log) -> None:
    async with ModelServer([Held(Answer("One moment")), Answer("Both done.")]) as server:
        with running("-p", "Go", cwd=tmp_path, **everywhere(server)) as process:
            session = await listening(log)
            seen: list[dict[str, Any]] = []

            async def watch() -> None:
                async for event in live_events(log.live_socket(session)):
                    seen.append(event)

            watching = asyncio.ensure_future(watch())
            await until(lambda: seen)
            number = log.inbox.send(session, Say("And the tests?"))
            await until(lambda: any(event["type"] == "steering_queued" for event in seen))
            await until(lambda: log.inbox.is_taken(number))
            server.release.set()
            code, out, _ = await ended(process)
            await asyncio.wait_for(watching, 60)
        assert b"And the tests?" in server.requests[-1].body
    assert (code, out) == (0, "Both done.\n")
    assert any(event["type"] == "run_finished" for event in seen)
    assert log.inbox.is_taken(number), "also after the session was closed"
    assert not log.live_socket(session).exists(), "the socket was removed"


async def test_a_run_can_be_stopped(tmp_path: Path, log: Log) -> None:
    async with ModelServer([Held(Answer("One moment"))]) as server:
        with running("-p", "Go", cwd=tmp_path, **everywhere(server)) as process:
            session = await listening(log)
            log.inbox.send(session, Stop())
            assert (await ended(process))[0] == 130
