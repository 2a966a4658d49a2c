"""Compaction: what is sent shrinks, the history stays whole, and the log carries both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from outrider import Agent, Compaction, Limits, Log, ScriptedModel, Session
from outrider.conversation.history import violations
from outrider.conversation.messages import Message
from outrider.errors import ConversationError
from outrider.events import Compacted, CompactionStarted, Event, ResultsCleared
from outrider.log.entries import CompactionEntry
from outrider.providers.base import Request
from outrider.providers.testing.scripted import Step, call
from outrider.providers.windows import message_tokens

SUMMARY = "## Goal\nCount the files."


def look(number: int) -> str:
    """Look at a file."""
    return f"file {number}: " + "words of it " * 170


def is_summary_request(request: Request) -> bool:
    return "Write a summary" in request.reminder


def working(turns: int) -> Callable[[Request], Step]:
    """A model that looks at one file a turn, and writes summaries."""
    done = 0

    def step(request: Request) -> Step:
        nonlocal done
        if is_summary_request(request):
            return SUMMARY
        done += 1
        return call("look", number=done) if done <= turns else "Done."

    return step


def sent_tokens(request: Request) -> int:
    return sum(map(message_tokens, request.messages))


def session_with(model: ScriptedModel, seen: list[Event] | None = None, clear_at: float | None = None) -> Session:
    limits, compaction = Limits(max_turns=None, max_repeats=None), Compaction(clear_threshold=clear_at)
    agent = Agent(model, tools=[look], limits=limits, compaction=compaction)
    return Session(agent, observer=seen.append if seen is not None else None)


def test_a_full_window_is_compacted_and_the_run_goes_on() -> None:
    seen: list[Event] = []
    model = ScriptedModel(working(30), window=8_000)
    session = session_with(model, seen)
    result = asyncio.run(session.run("Count the files."))
    assert result.status == "done"
    assert any(isinstance(event, Compacted) for event in seen)
    assert max(map(sent_tokens, model.requests)) < 8_000
    assert len(session.messages) == 62  # the prompt, 30 calls with results, and the answer
    for request in model.requests:
        assert violations(request.messages) == []
    newest = model.requests[-1].messages[0].text
    assert SUMMARY in newest
    assert "> Count the files." in newest


def test_events_come_in_pairs_with_what_was_saved() -> None:
    seen: list[Event] = []
    asyncio.run(session_with(ScriptedModel(working(12), window=8_000), seen).run("Count the files."))
    events = [event for event in seen if isinstance(event, CompactionStarted | Compacted)]
    started, compacted = events[:2]
    assert isinstance(started, CompactionStarted)
    assert isinstance(compacted, Compacted)
    assert started.reason == compacted.reason == "threshold"
    assert compacted.tokens_before == started.tokens > compacted.tokens_after


def test_without_a_known_window_nothing_is_compacted() -> None:
    seen: list[Event] = []
    asyncio.run(session_with(ScriptedModel(working(30)), seen).run("Count the files."))
    assert not any(isinstance(event, Compacted | ResultsCleared) for event in seen)


def test_a_person_can_compact_with_a_focus() -> None:
    model = ScriptedModel(working(3), window=200_000)
    session = session_with(model)
    asyncio.run(session.run("Count the files."))
    compacted = asyncio.run(session.compact("the names of the files"))
    assert compacted.reason == "manual"
    assert "the names of the files" in model.requests[-1].reminder
    assert session.context.used == compacted.tokens_after < compacted.tokens_before
    assert len(session.messages) == 8


def test_the_request_for_the_summary_extends_the_one_before_it() -> None:
    model = ScriptedModel(working(30), window=8_000)
    asyncio.run(session_with(model).run("Count the files."))
    index = next(index for index, request in enumerate(model.requests) if is_summary_request(request))
    before, asked = model.requests[index - 1], model.requests[index]
    assert list(asked.messages[: len(before.messages)]) == list(before.messages)
    assert (asked.system, asked.tools, asked.settings) == (before.system, before.tools, before.settings)


def test_there_is_nothing_to_compact_in_a_new_session() -> None:
    session = Agent(ScriptedModel(["Hello."])).session()
    with pytest.raises(ConversationError, match="nothing to compact"):
        asyncio.run(session.compact())


def test_a_resumed_session_sends_the_summary_without_reading_the_rest(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        agent = Agent(ScriptedModel(working(300), window=8_000), tools=[look], limits=Limits(max_turns=None))
        with Session.open(log, agent=agent) as session:
            asyncio.run(session.run("Count the files."))
            name, before, sent = session.id, session.messages, list(session.history.sendable())
        again = ScriptedModel(["Still here."], window=8_000)
        log.messages = None  # type: ignore[method-assign, assignment]
        with Session.open(log, name, Agent(again, tools=[look])) as session:
            result = asyncio.run(session.run("Go on."))
            assert result.status == "done"
            assert list(again.requests[0].messages[: len(sent)]) == sent
            assert again.requests[0].messages[-1] == Message.user("Go on.")
            del log.messages
            assert session.messages[: len(before)] == before


def test_the_summary_counts_as_usage(tmp_path: Path) -> None:
    with Log(tmp_path) as log, Session.open(log, agent=Agent(ScriptedModel(["Hi.", "Yes.", SUMMARY]))) as session:
        asyncio.run(session.run("Hello."))
        asyncio.run(session.run("Are you there?"))
        asyncio.run(session.compact())
        entry = [record.entry for record in log.records(session.id)][-1]
        assert isinstance(entry, CompactionEntry)
        assert entry.usage is not None
        assert entry.kept == 1
