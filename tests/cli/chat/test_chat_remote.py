"""A chat and another process: either side answers a question; messages, stops and events cross over."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outrider.coding.remote.live import live_events
from outrider.log.log import Log
from outrider.log.questions import Answer as Given
from outrider.log.questions import ElicitationQuestion, PermissionQuestion, Question, Say, Stop
from outrider.sync import default_log
from outrider.web.live_sessions import LiveSessions
from outrider.web.opener import CodingOpener
from tests.cli.chat.terminal import Terminal, answered_by, until
from tests.cli.chat.test_chat_servers import ready
from tests.coding.hooks.test_hooks import trust, write_hooks
from tests.mcp.starting import scripted, servers_json
from tests.modelserver import Held, ModelServer
from tests.streams import Answer

pytestmark = pytest.mark.long  # `test_prompt_remote.py` is the short form

WEB = "on the web page"


@pytest.fixture
def log() -> Iterator[Log]:
    with default_log() as log:
        yield log


def bash(command: str, id: str = "call_1") -> Answer:
    return Answer("", ((id, "Bash", {"command": command}),))


async def asked(terminal: Terminal, log: Log, said: str = "Do it.") -> Question:
    """Say something, and wait for the question on both sides."""
    await terminal.wait_for_prompt()
    if said:
        terminal.say(said)
    await terminal.wait_for("esc cancel")
    await until(lambda: log.inbox.questions(), what="a question in the inbox")
    (question,) = log.inbox.questions()
    return question


async def test_an_answer_from_elsewhere_counts_and_the_chat_shows_it_and_goes_on(project: Path, log: Log) -> None:
    async with (
        ModelServer([bash("touch made"), bash("touch more", "call_2"), Answer("Done.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        question = await asked(terminal, log)
        assert isinstance(question.body, PermissionQuestion)
        assert question.body.title == "Bash(touch made)"
        assert log.inbox.answer(question.id, Given("once"), WEB)
        await terminal.wait_for(re.compile(r"Allowed on the web page\..*Allow Bash\(touch more\)", re.S))
        assert (project / "made").exists()
        await until(lambda: log.inbox.questions(), what="the next question")
        log.inbox.answer(log.inbox.questions()[0].id, Given("no", "that is enough"), WEB)
        await terminal.wait_for("Denied on the web page: that is enough")
        await terminal.wait_for("Done.")
        await terminal.wait_for_prompt()
        assert "? Allow " not in terminal.screen
        assert b"the user does not want this: that is enough" in server.requests[-1].body
    assert not (project / "more").exists()


async def test_a_prefix_and_a_no_from_elsewhere_do_what_they_do_in_the_chat(project: Path, log: Log) -> None:
    steps = [bash("touch made"), bash("touch more", "call_2"), bash("mkdir x", "call_3"), Answer("That, then.")]
    async with (
        ModelServer(steps) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        question = await asked(terminal, log)
        assert isinstance(question.body, PermissionQuestion)
        assert [each.id for each in question.body.options] == ["once", "always", "prefix", "no"]
        assert log.inbox.answer(question.id, Given("prefix"), WEB)
        await terminal.wait_for(re.compile(r"begin like it, on the web page\..*Allow Bash\(mkdir x\)", re.S))
        assert (project / "more").exists()
        await until(lambda: log.inbox.questions(), what="the next question")
        log.inbox.answer(log.inbox.questions()[0].id, Given("no"), WEB)
        await terminal.wait_for("Denied on the web page.")
        await terminal.wait_for_prompt()
        assert len(server.requests) == 3, "the turn has ended"
        terminal.say("Something else.")
        await terminal.wait_for("That, then.")


async def test_an_answer_in_the_chat_counts_and_is_known_elsewhere(project: Path, log: Log) -> None:
    async with (
        ModelServer([bash("touch made"), Answer("Done.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        question = await asked(terminal, log)
        terminal.press("y")
        await terminal.wait_for("Done.")
        assert log.inbox.questions() == []
        assert not log.inbox.answer(question.id, Given("no"), WEB)
        found = log.inbox.question(question.id)
        assert found
        assert (found.answer, found.answered_by) == (Given("once"), "in the terminal")
        assert WEB not in terminal.transcript


async def test_a_rule_chosen_elsewhere_holds_as_if_chosen_here(project: Path, log: Log) -> None:
    async with (
        ModelServer([bash("touch made"), bash("touch made", "call_2"), Answer("Done.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        question = await asked(terminal, log)
        assert log.inbox.answer(question.id, Given("always"), WEB)
        await terminal.wait_for("Always allowed on the web page.")
        await terminal.wait_for("Done.")
    async with (
        ModelServer([bash("touch made"), Answer("Done again.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("Once more.")
        await terminal.wait_for("Done again.")


async def test_all_edits_allowed_elsewhere_change_the_mode_of_the_chat(project: Path, log: Log) -> None:
    calls = [("w1", "Write", {"file_path": "a", "content": "a"}), ("w2", "Write", {"file_path": "b", "content": "b"})]
    async with (
        ModelServer([*(Answer("", (call,)) for call in calls), Answer("Done.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        question = await asked(terminal, log)
        assert log.inbox.answer(question.id, Given("edits"), WEB)
        await terminal.wait_for("Done.")
        await terminal.wait_for_prompt()
        assert "edits" in terminal.screen
    assert (project / "b").read_text() == "b"


@pytest.mark.parametrize("answered", ["while no process runs", "when it is asked again"])
async def test_a_killed_chats_question_waits_and_goes_on_when_it_is_resumed(
    project: Path, log: Log, answered: str
) -> None:
    async with (
        ModelServer([bash("touch made"), Answer("Done.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        question = await asked(terminal, log)
        os.killpg(terminal.process.pid, signal.SIGKILL)
        await asyncio.to_thread(terminal.process.wait)
        assert [each.id for each in log.questions()] == [question.id]
        if answered == "while no process runs":
            assert log.inbox.answer(question.id, Given("once"), WEB)
        assert not (project / "made").exists()
        async with Terminal("--resume", question.session, cwd=project, **answered_by(server)) as again:
            if answered == "when it is asked again":
                repeated = await asked(again, log, "/continue")
                assert (repeated.id, repeated.call_id) == (question.id, question.call_id)
                assert log.inbox.answer(repeated.id, Given("once"), WEB)
            else:
                await again.wait_for_prompt()
                again.say("/continue")
            await again.wait_for("Done.")
    assert (project / "made").exists()


async def test_stopping_elsewhere_cancels_the_turn_and_its_question(project: Path, log: Log) -> None:
    async with (
        ModelServer([bash("touch made"), Answer("Here.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        question = await asked(terminal, log)
        number = log.inbox.send(question.session, Stop())
        await terminal.wait_for("Interrupted.")
        await terminal.wait_for_prompt()
        await until(lambda: log.inbox.is_taken(number))
        await until(lambda: not log.inbox.questions())
        terminal.say("Are you there?")
        await terminal.wait_for("Here.")


async def test_a_message_from_elsewhere_begins_a_turn_and_keeps_the_typed_line(project: Path, log: Log) -> None:
    async with (
        ModelServer([Answer("First."), Answer("Second."), Answer("Third.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("One.")
        await terminal.wait_for("First.")
        await terminal.wait_for_prompt()
        terminal.type("half a li")
        await terminal.wait_for("half a li")
        session = log.sessions()[0].id
        log.inbox.send(session, Say("Two, from the phone."))
        await terminal.wait_for("Second.")
        await terminal.wait_for_prompt()
        assert re.search(r"^› Two, from the phone\.", terminal.transcript, re.M)
        await terminal.wait_for(re.compile(r"^› half a li$", re.M))
        terminal.say("ne.")
        await terminal.wait_for("Third.")
        assert b"half a line." in server.requests[-1].body
        assert [message.text for message in log.messages(session) if message.role == "user"] == [
            "One.",
            "Two, from the phone.",
            "half a line.",
        ]


async def test_a_message_from_elsewhere_steers_the_turn_that_goes_on(project: Path, log: Log) -> None:
    async with (
        ModelServer([Held(Answer("One moment")), Answer("Done both.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("Begin.")
        await terminal.wait_for("One")
        session = log.sessions()[0].id
        log.inbox.send(session, Say("Also the tests."))
        await terminal.wait_for("queued: Also the tests.")
        server.release.set()
        await terminal.wait_for("Done both.")
        assert b"Also the tests." in server.requests[-1].body


async def test_a_message_that_a_killed_chat_has_not_stored_is_said_by_its_sender_once(project: Path, log: Log) -> None:
    async with ModelServer([Answer("First."), Answer("Second.")]) as server:
        async with Terminal(cwd=project, **answered_by(server)) as terminal:
            await terminal.wait_for_prompt()
            terminal.say("One.")
            await terminal.wait_for("First.")
            await terminal.wait_for_prompt()
        hook = "[ -e begun ] && exit; touch begun; until [ -e go ]; do sleep 0.05; done"
        write_hooks(project, "UserPromptSubmit", hook, timeout=500)
        trust(project)
        session = log.sessions()[0].id
        async with Terminal("--continue", cwd=project, **answered_by(server)) as terminal:
            await terminal.wait_for_prompt()
            await until(lambda: log.inbox.is_listening(session), what="a chat that takes messages")
            talks = LiveSessions(log, CodingOpener(log))
            saying = asyncio.ensure_future(talks.say(session, "Two, from the phone."))
            await until((project / "begun").exists, what="the hook of the chat")  # the chat has the message
            os.kill(terminal.process.pid, signal.SIGKILL)
            await terminal.exit_code()
        (project / "go").touch()
        await saying
        await until(lambda: not talks._open, what="the end of the turn")
        await talks.close()
        said = [message.text for message in log.messages(session) if message.role == "user"]
        assert said == ["One.", "Two, from the phone."]


async def test_a_message_that_a_hook_blocks_is_taken_and_the_chat_says_why(project: Path, log: Log) -> None:
    write_hooks(project, "UserPromptSubmit", "grep -q phone && { echo not from a phone >&2; exit 2; }; exit 0")
    trust(project)
    async with (
        ModelServer([Answer("First."), Answer("Second.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("One.")
        await terminal.wait_for("First.")
        await terminal.wait_for_prompt()
        session = log.sessions()[0].id
        number = log.inbox.send(session, Say("Two, from the phone."))
        await terminal.wait_for("not from a phone")
        await until(lambda: log.inbox.is_taken(number), what="a message that was taken")
        terminal.say("Two.")
        await terminal.wait_for("Second.")
        assert [message.text for message in log.messages(session) if message.role == "user"] == ["One.", "Two."]


async def test_another_process_watches_the_chat_live(project: Path, log: Log) -> None:
    async with (
        ModelServer([Answer("First."), Held(Answer("A longer story")), Answer("")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("One.")
        await terminal.wait_for("First.")
        await terminal.wait_for_prompt()
        session = log.sessions()[0].id
        seen: list[dict[str, Any]] = []

        async def watch() -> None:
            async for event in live_events(log.live_socket(session)):
                seen.append(event)

        watching = asyncio.ensure_future(watch())
        await until(lambda: seen)
        terminal.say("Two.")
        await until(lambda: any(event["type"] == "text_delta" for event in seen), what="a delta while the model writes")
        assert not any(event["type"] == "run_finished" for event in seen)
        server.release.set()
        await until(lambda: any(event["type"] == "run_finished" for event in seen))
        terminal.say("/exit")
        await asyncio.wait_for(watching, 60)


async def test_a_form_of_a_server_can_be_filled_in_elsewhere(project: Path, log: Log) -> None:
    folder = project.parent / "home" / ".config" / "outrider"
    folder.mkdir(parents=True)
    form = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    (folder / "mcp.json").write_text(servers_json(scripted(form=form)))
    ask = Answer("", (("call_1", "mcp__scripted__ask", {"text": "How many?"}),))
    async with (
        ModelServer([ask, Answer("Done.")]) as server,
        Terminal("--permissions", "all", cwd=project, **answered_by(server)) as terminal,
    ):
        await ready(terminal)
        question = await asked(terminal, log)
        assert isinstance(question.body, ElicitationQuestion)
        assert (question.body.server, question.body.message) == ("scripted", "How many?")
        assert log.inbox.answer(question.id, Given("accept", content={"n": 12}), WEB)
        await terminal.wait_for("Answered on the web page.")
        await terminal.wait_for("Done.")
        assert b"12" in server.requests[-1].body
