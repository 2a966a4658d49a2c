"""Sessions that work in the process of the page: what is said reaches them, and they are released afterwards."""

from __future__ import annotations

from pathlib import Path

from outrider import Agent
from outrider.log.entries import MessageEntry
from outrider.log.questions import Say
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
