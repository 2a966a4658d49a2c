"""`--continue`: the session that was used last in the folder, by a person or by `-p`."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.batches.task import Task
from outrider.cli.session_lookup import NoSessionHereError, find_session
from outrider.coding.batch_sessions import task_settings
from outrider.conversation.messages import Message
from outrider.errors import UnknownSessionError
from outrider.log.entries import MessageEntry, SessionSettings
from outrider.log.log import Log
from outrider.runtime.agent import Agent
from outrider.runtime.session import Session
from outrider.sync import default_log
from tests.cli.program import outrider


def stored(log: Log, folder: Path | str, origin: str | None = "chat") -> str:
    journal = log.create(SessionSettings(model="demo", cwd=str(folder), origin=origin))
    journal.write_now(MessageEntry(Message.user("What is 2+2?")), MessageEntry(Message.assistant("4")))
    journal.close()
    return journal.id


def test_a_look_at_a_session_does_not_make_it_the_last_one(tmp_path: Path) -> None:
    for terms in ("1+1", "2+2"):
        assert outrider("-p", f"What is {terms}?", "--model", "demo", cwd=tmp_path).returncode == 0
    with default_log() as log:
        newest, oldest = log.sessions()
        Session.open(log, oldest.id, Agent("demo", system="Another prompt"), cwd=tmp_path).now().close()
        assert [each.updated for each in log.sessions()] == [newest.updated, oldest.updated]
    assert "1+1" in outrider("sessions", "show", oldest.id).stdout
    assert outrider("-p", "What is 3+3?", "--continue", "--model", "demo", cwd=tmp_path).stdout == "6\n"
    with default_log() as log:
        assert [each.id for each in log.sessions()] == [newest.id, oldest.id]
        assert [each.text for each in log.messages(newest.id) if each.role == "user"][-1] == "What is 3+3?"
        assert [each.origin for each in log.sessions()] == ["print"] * 2


def test_tasks_of_batches_and_programs_are_not_the_last_conversation(tmp_path: Path) -> None:
    with default_log() as log:
        with pytest.raises(UnknownSessionError, match="no session to continue yet"):
            find_session(log, None, latest=True, folder=tmp_path)
        stored(log, "/elsewhere")
        with pytest.raises(NoSessionHereError):
            find_session(log, None, latest=True, folder=tmp_path)
        for origin in ("print", "editor", None, "chat"):
            last = stored(log, tmp_path, origin)
            for other in ("batch", "python"):
                stored(log, tmp_path, other)
            assert find_session(log, None, latest=True, folder=tmp_path) == last
        imported = stored(log, "")
        assert find_session(log, None, latest=True, folder=tmp_path) == imported


async def test_what_a_person_goes_on_with_is_a_chat(tmp_path: Path) -> None:
    with default_log() as log:
        name = stored(log, tmp_path, "print")
        for origin, kept in (
            ("print", "print"),
            (None, "print"),
            ("chat", "chat"),
            ("print", "chat"),
            ("editor", "chat"),
        ):
            Session.open(log, name, Agent("demo"), origin=origin).now().close()  # type: ignore[arg-type]
            assert log.session(name).origin == kept
        async with Session.open(log, agent=Agent("demo")) as session:
            assert log.session(session.id).origin == "python"
        with pytest.raises(
            ValueError, match="'page' is no origin of a session; there are chat, editor, print, batch, py"
        ):
            Session.open(log, agent=Agent("demo"), origin="page")  # type: ignore[arg-type]


def test_a_task_has_a_limit_of_turns_unless_the_settings_say_otherwise(tmp_path: Path) -> None:
    task, home = Task("a", "Go"), {"OUTRIDER_HOME": str(tmp_path), "HOME": str(tmp_path)}
    assert task_settings(task, tmp_path, home).limits.max_turns == 50
    for said, turns in (("none", None), ("7", 7)):
        assert task_settings(task, tmp_path, home | {"OUTRIDER_MAX_TURNS": said}).limits.max_turns == turns
