"""Sessions that work in the process of the page: what is said reaches them, and they are released afterwards."""

from __future__ import annotations

import asyncio
from pathlib import Path

from outrider import Agent
from outrider.log.entries import MessageEntry
from outrider.log.log import Log
from outrider.log.questions import Say, Signal
from outrider.log.sqlite.database import reading
from outrider.runtime.session import Session
from outrider.sync import default_log
from outrider.web.talking import Talks
from tests.log import until_so


async def test_a_message_between_the_end_of_a_turn_and_the_release_keeps_no_session_open(tmp_path: Path) -> None:
    with default_log() as log:
        with Session.open(log, None, Agent("demo"), cwd=tmp_path).now() as session:
            await session.run("Hello")
        talks = Talks(log)
        await talks.say(session.id, Say("One"))
        talk = talks._open[session.id]
        await talk.task
        talk.say("Two")  # the session is not released yet
        await until_so(lambda: not talks._open)
        entries = [record.entry for record in log.after(session.id, 0, 100)]
        messages = [entry.message for entry in entries if isinstance(entry, MessageEntry)]
        said = [message.text for message in messages if message.role == "user"]
        assert said == ["Hello", "One", "Two"]
        assert log.session(session.id).holder is None
        await talks.close()


def said_in(log: Log, session: str) -> list[str]:
    """What the user has said in a session."""
    entries = [record.entry for record in log.after(session, 0, 100)]
    messages = [entry.message for entry in entries if isinstance(entry, MessageEntry)]
    return [message.text for message in messages if message.role == "user"]


async def test_a_message_that_a_program_does_not_take_before_it_closes_is_not_lost(tmp_path: Path) -> None:
    with default_log() as log, Log(log.folder) as chat:
        with Session.open(log, None, Agent("demo"), cwd=tmp_path).now() as session:
            await session.run("Hello")
        journal = chat.open(session.id)
        chat.inbox.listen(session.id)
        await until_so(lambda: log.inbox.is_listening(session.id))
        talks = Talks(log)
        saying = asyncio.ensure_future(talks.say(session.id, Say("Anyone there?")))
        await until_so(lambda: waiting(log) == 1)
        journal.close()  # without a look at its messages
        await saying
        await until_so(lambda: not talks._open)
        assert said_in(log, session.id) == ["Hello", "Anyone there?"]
        await talks.close()


async def test_a_message_that_was_taken_is_not_said_twice_though_the_program_closes_at_once(tmp_path: Path) -> None:
    with default_log() as log, Log(log.folder) as chat:
        with Session.open(log, None, Agent("demo"), cwd=tmp_path).now() as session:
            await session.run("Hello")
        journal = chat.open(session.id)
        held = chat.inbox.listen(session.id)
        await until_so(lambda: log.inbox.is_listening(session.id))
        talks = Talks(log)
        saying = asyncio.ensure_future(talks.say(session.id, Say("Anyone there?")))
        await until_so(lambda: waiting(log) == 1)
        taken: list[Signal] = []
        await held.take_signals(taken.append)
        journal.close()
        await saying
        assert taken == [Say("Anyone there?")]
        assert talks._open == {}
        assert said_in(log, session.id) == ["Hello"]


def waiting(log: Log) -> int:
    """The number of messages that were sent and not taken."""
    with reading(log.folder / "log.db") as connection:
        count: int = connection.execute("SELECT count(*) FROM signal WHERE taken IS NULL").fetchone()[0]
        return count
