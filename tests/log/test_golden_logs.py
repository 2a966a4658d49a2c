"""Logs that released versions have written: they open, tell the same, and go on.

Each file is a log in SQL: a session with a call, a title and two runs; one with a compaction; one whose process was
killed while a call ran that must not run again.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from outrider import Agent, Log, Message, Session, tool
from outrider.testing import ScriptedModel

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.sql"))


@pytest.fixture(params=GOLDEN, ids=lambda path: path.stem)
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Log:
    (tmp_path / "log").mkdir(mode=0o700)
    with closing(sqlite3.connect(tmp_path / "log" / "log.db")) as connection:
        connection.executescript(request.param.read_text())
    return Log(tmp_path / "log")


def ids(log: Log) -> dict[str, str]:
    return {summary.title: summary.id for summary in log.sessions()}


def texts(messages: list[Message]) -> list[str]:
    return [message.text or message.tool_results[0].text for message in messages if not message.has_tool_calls]


def test_it_has_its_sessions_with_their_usage(log: Log) -> None:
    assert set(ids(log)) == {"The attic", "Count.", "Look left, then leave."}
    attic = log.session(ids(log)["The attic"])
    assert (attic.model, attic.turns, attic.usage.total_tokens) == ("scripted", 3, 330)
    assert log.settings(attic.id).title == "The attic"
    assert log.claimed_settings(attic.id).system == "Be brief."


def test_a_session_says_what_was_said(log: Log) -> None:
    assert texts(log.messages(ids(log)["The attic"])) == [
        "What is in the attic?",
        "the attic is empty.",
        "The attic is empty.",
        "What else?",
        "Nothing else.",
    ]


async def test_a_session_goes_on(log: Log) -> None:
    agent = Agent(ScriptedModel(["Dust."]))
    async with Session.open(log, ids(log)["The attic"], agent) as session:
        assert (await session.run("Really?")).text == "Dust."
        assert len(session.messages) == 8
    assert texts(log.messages(session.id))[-2:] == ["Really?", "Dust."]


async def test_a_compacted_session_sends_the_summary_and_what_followed(log: Log) -> None:
    model = ScriptedModel(["Four."])
    async with Session.open(log, ids(log)["Count."], Agent(model)) as session:
        await session.run("Go on.")
    sent = [message.text for message in model.requests[0].messages]
    assert "## Goal\nCount." in sent[0]
    assert sent[-2:] == ["Three.", "Go on."]
    assert texts(log.messages(session.id))[:2] == ["Count.", "One."]


async def test_a_call_that_was_killed_does_not_run_again(log: Log) -> None:
    ran: list[str] = []

    @tool(effect="write")
    def leave(place: str) -> str:
        """Leave."""
        ran.append(place)
        return "left"

    agent = Agent(ScriptedModel(["I do not know whether I left."]), tools=[leave])
    async with Session.open(log, ids(log)["Look left, then leave."], agent) as session:
        result = await session.run()
    assert (result.status, ran) == ("done", [])
    (unknown,) = session.messages[-2].tool_results
    assert unknown.outcome == "unknown"
    assert "The outcome of this call is unknown" in unknown.text
