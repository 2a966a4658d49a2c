"""Sessions that work in the process of the server: what is said reaches them, and they are released afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from outrider import Agent
from outrider.errors import ConversationError, LogError, ValidationError
from outrider.log.entries import GoalChecked, MessageEntry
from outrider.log.inbox import HeldInbox
from outrider.log.journal import Journal
from outrider.log.log import Log
from outrider.log.questions import Say, Signal
from outrider.log.sqlite.database import reading
from outrider.runtime.events import Notice
from outrider.runtime.session import Session
from outrider.sync import default_log
from outrider.web import live_sessions
from outrider.web.api_requests import NewSession
from outrider.web.live_sessions import LiveSessions
from outrider.web.opener import CodingOpener
from tests.log import until_so


async def test_a_message_between_the_end_of_a_turn_and_the_release_keeps_no_session_open(tmp_path: Path) -> None:
    with default_log() as log:
        with Session.open(log, None, Agent("demo"), cwd=tmp_path).now() as session:
            await session.run("Hello")
        talks = LiveSessions(log, CodingOpener(log))
        await talks.say(session.id, "One")
        talk = talks._open[session.id]
        assert talk.task
        await talk.task
        talk.say("Two")  # the session is not released yet
        await until_so(lambda: not talks._open)
        entries = [record.entry for record in log.after(session.id, 0, 100)]
        messages = [entry.message for entry in entries if isinstance(entry, MessageEntry)]
        said = [message.text for message in messages if message.role == "user"]
        assert said == ["Hello", "One", "Two"]
        await until_so(lambda: log.session(session.id).holder is None)  # it is closed after it left the list
        await talks.close()


async def test_a_goal_is_worked_for_and_one_that_is_ended_keeps_no_session_open(tmp_path: Path) -> None:
    with default_log() as log:
        with Session.open(log, None, Agent("demo"), cwd=tmp_path).now() as session:
            await session.run("Hello")
        talks = LiveSessions(log, CodingOpener(log))
        await talks.set_goal(session.id, "true")
        await until_so(lambda: not talks._open)
        checks = [record.entry for record in log.after(session.id, 0, 100) if isinstance(record.entry, GoalChecked)]
        assert ([each.passed for each in checks], log.settings(session.id).goal) == ([True], "")
        await talks.set_goal(session.id, "")
        await until_so(lambda: not talks._open and log.session(session.id).holder is None)
        with pytest.raises(ConversationError, match="a goal is a command"):
            await talks.set_goal(session.id, "x\0y")
        await talks.close()


async def test_a_session_begins_only_in_a_folder_that_had_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_MODEL", "demo")
    known, gone, other = (tmp_path / name for name in ("known", "gone", "other"))
    with default_log() as log:
        for folder in (known, gone, other):
            folder.mkdir()
        for folder in (known, gone):
            with Session.open(log, None, Agent("demo"), cwd=folder).now() as session:
                await session.run("Hello")
        gone.rmdir()
        talks = LiveSessions(log, CodingOpener(log))
        for folder, reason in ((other, "no session was in"), (gone, "does not exist")):
            with pytest.raises(LogError, match=reason):
                await talks.begin(NewSession("One", str(folder)), is_page=True)
        with pytest.raises(ValidationError):
            await talks.begin(NewSession(" ", str(known)), is_page=True)
        assert len(log.sessions()) == 2
        new = await talks.begin(NewSession("One", str(known)), is_page=True)
        await until_so(lambda: not talks._open)
        assert log.settings(new).cwd == str(known)
        assert said_in(log, new) == ["One"]
        await until_so(lambda: log.session(new).holder is None)
        await talks.close()


async def test_what_waits_for_consent_is_told_on_the_page(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"own": {"command": "touch", "args": ["started"]}}}')
    with default_log() as log:
        with Session.open(log, None, Agent("demo"), cwd=tmp_path).now() as session:
            await session.run("Hello")
        talks, events = LiveSessions(log, CodingOpener(log)), list[object]()
        talks.on_open = lambda name: talks._open[name].session.observe(events.append)
        await talks.say(session.id, "One")
        await until_so(lambda: not talks._open)
        await talks.close()
    wanted = "1 MCP server waits for your consent, not used until you agree: outrider trust"
    assert [each.text for each in events if isinstance(each, Notice)] == [wanted]
    assert not (tmp_path / "started").exists()


def said_in(log: Log, session: str) -> list[str]:
    """What the user has said in a session."""
    entries = [record.entry for record in log.after(session, 0, 100)]
    messages = [entry.message for entry in entries if isinstance(entry, MessageEntry)]
    return [message.text for message in messages if message.role == "user"]


@asynccontextmanager
async def open_elsewhere(folder: Path) -> AsyncIterator[tuple[Log, str, Journal, HeldInbox]]:
    """A session that another log has open, as a chat in another process would."""
    with default_log() as log, Log(log.folder) as chat:
        with Session.open(log, None, Agent("demo"), cwd=folder).now() as session:
            await session.run("Hello")
        journal = chat.open(session.id)
        held = chat.inbox.listen(session.id)
        await until_so(lambda: log.inbox.is_listening(session.id))
        yield log, session.id, journal, held


async def test_a_message_that_a_program_does_not_take_before_it_closes_is_not_lost(tmp_path: Path) -> None:
    async with open_elsewhere(tmp_path) as (log, session, journal, _):
        talks = LiveSessions(log, CodingOpener(log))
        saying = asyncio.ensure_future(talks.say(session, "Anyone there?"))
        await until_so(lambda: waiting(log) == 1)
        journal.close()  # without a look at its messages
        await saying
        await until_so(lambda: not talks._open)
        assert said_in(log, session) == ["Hello", "Anyone there?"]
        await talks.close()


async def test_a_message_that_was_taken_is_not_said_twice_though_the_program_closes_at_once(tmp_path: Path) -> None:
    async with open_elsewhere(tmp_path) as (log, session, journal, held):
        talks = LiveSessions(log, CodingOpener(log))
        saying = asyncio.ensure_future(talks.say(session, "Anyone there?"))
        await until_so(lambda: waiting(log) == 1)
        taken: list[Signal] = []
        await held.take_signals(taken.append)
        journal.close()
        await saying
        assert taken == [Say("Anyone there?")]
        assert talks._open == {}
        assert said_in(log, session) == ["Hello"]


async def test_the_page_waits_for_a_program_that_has_a_message_and_not_for_one_that_does_not_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_sessions, "TAKE_SECONDS", 0.0)
    async with open_elsewhere(tmp_path) as (log, session, journal, held):
        talks = LiveSessions(log, CodingOpener(log))
        with pytest.raises(LogError, match="does not respond"):
            await talks.say(session, "Anyone there?")
        await held.take_signals()
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        number = log.inbox.send(session, Say("/compact"))
        await held.take_signals(lambda signal: taken)
        looks: list[int] = []
        is_delivered = log.inbox.is_delivered
        monkeypatch.setattr(log.inbox, "is_delivered", lambda each: looks.append(each) or is_delivered(each))
        waits = asyncio.ensure_future(talks._is_taken(number))
        await until_so(lambda: len(looks) > 2)  # it is late, and the page still waits
        assert not waits.done()
        taken.set_result(None)
        assert await waits
        journal.close()


def waiting(log: Log) -> int:
    """The number of messages that were sent and not taken."""
    with reading(log.folder / "log.db") as connection:
        count: int = connection.execute("SELECT count(*) FROM signal WHERE taken IS NULL").fetchone()[0]
        return count
