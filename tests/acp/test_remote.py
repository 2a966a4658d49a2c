"""Sessions of an editor in the hands of another process: it answers, talks, stops and watches beside the editor."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outrider.coding.remote.live import live_events
from outrider.errors import LogError
from outrider.log.log import Log
from outrider.log.questions import Answer as Given
from outrider.log.questions import PermissionQuestion, Question, Say, Stop
from outrider.sync import default_log
from tests.acp.editor import Editor, allowing, introduced
from tests.cli.asking import everywhere
from tests.modelserver import Answer, Held, ModelServer

WEB = "on the web page"


async def silent(params: dict[str, Any]) -> Any:
    """An editor whose person is away."""
    await asyncio.Event().wait()


AWAY = {"session/request_permission": silent}
NOTICES = {"session": {"notices": {}}}


@pytest.fixture
def log() -> Iterator[Log]:
    with default_log() as log:
        yield log


async def question_of(editor: Editor, log: Log) -> Question:
    """The one question that waits."""
    await editor.until(lambda: log.inbox.questions(), "a question in the inbox")
    (question,) = log.inbox.questions()
    await editor.until(lambda: editor.asked_for("session/request_permission"), "the question in the editor")
    return question


def cancelled_requests(editor: Editor) -> list[Any]:
    return [each["params"]["requestId"] for each in editor.received if each.get("method") == "$/cancel_request"]


async def test_an_answer_from_elsewhere_counts_and_the_editor_hears_it(tmp_path: Path, log: Log) -> None:
    async with introduced(handlers=AWAY, capabilities=NOTICES) as editor:
        session = await editor.new(tmp_path)
        request = editor.say(session, "run `touch made`")
        question = await question_of(editor, log)
        assert question.session == session
        assert isinstance(question.body, PermissionQuestion)
        assert (question.body.tool, question.body.input) == ("Bash", {"command": "touch made"})
        assert log.inbox.answer(question.id, Given("once"), WEB)
        assert await editor.answer(request) == {"stopReason": "end_turn"}
        assert editor.seen(session).notices == ["Allowed on the web page."]
        assert cancelled_requests(editor) == [editor.asked[0]["id"]]
        assert editor.seen(session).call("Bash")["status"] == "completed"
    assert (tmp_path / "made").exists()


async def test_a_denial_from_elsewhere_reaches_the_model_with_its_words(tmp_path: Path, log: Log) -> None:
    async with introduced(handlers=AWAY) as editor:
        session = await editor.new(tmp_path)
        request = editor.say(session, "run `touch made`")
        question = await question_of(editor, log)
        assert log.inbox.answer(question.id, Given("no", "write a test first"), WEB)
        assert await editor.answer(request) == {"stopReason": "end_turn"}
        text = editor.seen(session).call("Bash")["content"][0]["content"]["text"]
        assert "the user does not want this: write a test first" in text
    assert not (tmp_path / "made").exists()


async def test_a_rule_that_is_chosen_elsewhere_is_stored_as_if_chosen_here(tmp_path: Path, log: Log) -> None:
    async with introduced(handlers=AWAY) as editor:
        session = await editor.new(tmp_path)
        request = editor.say(session, "run `touch one`")
        assert log.inbox.answer((await question_of(editor, log)).id, Given("always"), WEB)
        await editor.answer(request)
        await editor.prompt(session, "run `touch one`")
        await editor.prompt(await editor.new(tmp_path), "run `touch one`")
        assert len(editor.asked) == 1


async def test_an_answer_in_the_editor_counts_and_is_known_elsewhere(tmp_path: Path, log: Log) -> None:
    asked = asyncio.Event()

    async def answer(params: dict[str, Any]) -> Any:
        await asked.wait()
        return {"outcome": {"outcome": "selected", "optionId": "once"}}

    async with introduced(handlers={"session/request_permission": answer}, capabilities=NOTICES) as editor:
        session = await editor.new(tmp_path)
        request = editor.say(session, "run `touch made`")
        question = await question_of(editor, log)
        asked.set()
        await editor.answer(request)
        assert not log.inbox.answer(question.id, Given("no"), WEB)
        found = log.inbox.question(question.id)
        assert found
        assert found.answered_by == "in the editor"
        assert editor.seen(session).notices == []


@pytest.mark.parametrize("answered", ["while no process runs", "when it is asked again"])
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
async def test_the_question_of_an_agent_that_ended_waits_and_goes_on_when_the_session_is_loaded(
    tmp_path: Path, log: Log, answered: str, end: signal.Signals
) -> None:
    async with introduced(handlers=AWAY) as editor:
        session = await editor.new(tmp_path)
        editor.say(session, "run `touch made`")
        question = await question_of(editor, log)
        editor.process.send_signal(end)
        await asyncio.to_thread(editor.process.wait)
        assert [each.id for each in log.questions()] == [question.id]
        if answered == "while no process runs":
            assert log.inbox.answer(question.id, Given("once"), WEB)
    assert not (tmp_path / "made").exists()
    async with introduced(handlers=AWAY) as editor:
        await editor.load(session, tmp_path)
        request = editor.say(session, "/continue")
        if answered == "when it is asked again":
            again = await question_of(editor, log)
            assert (again.id, again.call_id, again.session) == (question.id, question.call_id, session)
            assert log.inbox.answer(again.id, Given("once"), WEB)
        assert await editor.answer(request) == {"stopReason": "end_turn"}
    assert (tmp_path / "made").exists()


async def test_all_edits_of_a_session_can_be_allowed_elsewhere(tmp_path: Path, log: Log) -> None:
    writes = [("w1", "Write", {"file_path": "a", "content": "a"}), ("w2", "Write", {"file_path": "b", "content": "b"})]
    async with (
        ModelServer([*(Answer(calls=(each,)) for each in writes), Answer("Done.")]) as server,
        introduced(handlers=AWAY, **everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        request = editor.say(session, "Write")
        assert log.inbox.answer((await question_of(editor, log)).id, Given("edits"), WEB)
        await editor.answer(request)
        assert editor.seen(session).mode == "edits"
        assert len(editor.asked) == 1
    assert (tmp_path / "b").read_text() == "b"


async def test_stopping_elsewhere_cancels_the_turn_and_withdraws_the_question(tmp_path: Path, log: Log) -> None:
    async with introduced(handlers=AWAY) as editor:
        session = await editor.new(tmp_path)
        request = editor.say(session, "run `touch made`")
        await question_of(editor, log)
        number = log.inbox.send(session, Stop())
        assert await editor.answer(request) == {"stopReason": "cancelled"}
        await editor.until(lambda: log.inbox.is_taken(number), "the stop to be taken")
        await editor.until(lambda: not log.inbox.questions(), "an empty inbox")
        assert not editor.seen(session).open_calls


async def test_talking_from_elsewhere_begins_a_turn_that_the_editor_shows(tmp_path: Path, log: Log) -> None:
    async with introduced(handlers=allowing()) as editor:
        session = await editor.new(tmp_path)
        await listening(editor, log, session)
        log.inbox.send(session, Say("What is 2+2?"))
        await editor.until(lambda: editor.seen(session).text() == "4", "an answer")
        assert editor.seen(session).text("user") == "What is 2+2?"
        assert await editor.prompt(session, "run `touch made`") == "end_turn"
    texts = [message.text for message in log.messages(session) if message.role == "user" and message.text]
    assert texts[:2] == ["What is 2+2?", "run `touch made`"]


async def test_talking_from_elsewhere_steers_a_turn_that_goes_on(tmp_path: Path, log: Log) -> None:
    async with (
        ModelServer([Held(Answer("One moment")), Answer("Both done.")]) as server,
        introduced(**everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        request = editor.say(session, "Begin")
        await editor.until(lambda: editor.seen(session).text(), "a beginning")
        number = log.inbox.send(session, Say("And then?"))
        await editor.until(lambda: log.inbox.is_taken(number), "the message to be taken")
        await editor.until(lambda: queued(log, session), "the message in the queue")
        server.release.set()
        assert await editor.answer(request) == {"stopReason": "end_turn"}
        assert "And then?" in server.requests[-1].body.decode()


async def test_another_process_sees_the_events_as_they_happen(tmp_path: Path, log: Log) -> None:
    async with introduced(handlers=allowing()) as editor:
        session = await editor.new(tmp_path)
        seen: list[dict[str, Any]] = []
        await listening(editor, log, session)
        await editor.until(log.live_socket(session).exists, "the socket")
        watching = asyncio.ensure_future(collect(log, session, seen))
        await editor.until(lambda: seen, "the session")
        await editor.prompt(session, "run `echo hello`")
        await editor.until(lambda: seen[-1]["type"] == "run_finished", "the end of the run")
        assert seen[0] == {"type": "session", "session": session}
        kinds = [each["type"] for each in seen]
        assert [kind for kind in ("turn_started", "tool_started", "tool_finished") if kind in kinds] == [
            "turn_started",
            "tool_started",
            "tool_finished",
        ]
        await editor.ask("session/close", sessionId=session)
        await asyncio.wait_for(watching, 60)
        assert not log.live_socket(session).exists()
        with pytest.raises(LogError, match="no process has it open"):
            log.inbox.send(session, Stop())


async def collect(log: Log, session: str, seen: list[dict[str, Any]]) -> None:
    async for event in live_events(log.live_socket(session)):
        seen.append(event)


async def listening(editor: Editor, log: Log, session: str) -> None:
    is_listening: Callable[[], bool] = lambda: log.inbox.is_listening(session)  # noqa: E731
    await editor.until(is_listening, "a listener")


def queued(log: Log, session: str) -> bool:
    return any(record.entry.kind == "steering_queued" for record in log.records(session))
