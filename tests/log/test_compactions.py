"""Compactions in the log: resumed sessions, forks and exports carry them, and read only what they send."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider import Agent, Compaction, Limits, Log, Session
from outrider.cli.session_format import format_entry
from outrider.conversation.history import History, violations
from outrider.conversation.messages import Message, TextBlock, ToolResultBlock, ToolUseBlock
from outrider.conversation.usage import Usage
from outrider.events import Compacted, Event, SubagentEvent
from outrider.log.entries import CallResult, CompactionEntry, Entry, Intent, MessageEntry, ResultsClearedEntry
from outrider.log.reader import PAGE
from outrider.log.state import SessionState
from outrider.log.transfer import export, import_session
from outrider.providers.base import Request
from outrider.subagents.delegation import with_subagents
from outrider.testing import ScriptedModel, Step, call
from tests.lengths import examples
from tests.log import open_session

SUMMARY = Message.user("## Goal\nGo on.")
LONG = "a long result " * 40


def turn(number: int) -> list[Entry]:
    """Five entries and four messages: a prompt, a call, its result, and the answer."""
    use = ToolUseBlock(f"call_{number:020}", "read", {"path": f"{number}.txt"})
    return [
        MessageEntry(Message.user(f"question {number}")),
        MessageEntry(Message.assistant(use), Usage(100, 10)),
        Intent(use.id, "read", "read", f"key {number}", use.input),
        CallResult(ToolResultBlock(use.id, (TextBlock(f"{number}: {LONG}"),))),
        MessageEntry(Message.assistant(f"answer {number}"), Usage(2_000, 20)),
    ]


def written(log: Log, *entries: Entry) -> str:
    with_session = log.create()
    for start in range(0, len(entries), 500):
        with_session.write_now(*entries[start : start + 500])
    with_session.close()
    return with_session.id


def turns(start: int, stop: int) -> list[Entry]:
    return [entry for number in range(start, stop) for entry in turn(number)]


@pytest.fixture
def log(place: str) -> Iterator[Log]:
    with Log(place) as log:
        yield log


def sent(log: Log, id: str) -> list[Message]:
    with open_session(log, id=id) as session:
        return list(session.history.sendable())


def test_opening_reads_only_what_is_sent(log: Log) -> None:
    name = written(log, *turns(0, 1000), CompactionEntry(SUMMARY, 6), *turns(1000, 1003))
    with open_session(log, id=name) as session:
        assert not session.history.is_loaded
        assert session.history.is_ready
        assert session.history.is_abridged
        assert len(session.history.tail) <= PAGE
        assert session.history.shown()[0] == SUMMARY
        assert session.history.shown()[2].text == "answer 998"
        assert len(session.history.shown()) == 1 + 6 + 12
        assert violations(session.history.sendable()) == []
        assert len(session.messages) == 4012


def test_the_newest_compaction_counts(log: Log) -> None:
    first, second = CompactionEntry(Message.user("old"), 2), CompactionEntry(SUMMARY, 4)
    name = written(log, *turns(0, 3), first, *turns(3, 6), second)
    assert sent(log, name)[0].content[0] == SUMMARY.content[0]
    assert "old" not in str(sent(log, name))


def test_what_was_kept_may_reach_far_back(log: Log) -> None:
    name = written(log, *turns(0, 500), CompactionEntry(SUMMARY, 1200), *turns(500, 501))
    with open_session(log, id=name) as session:
        assert not session.history.is_loaded
        assert len(session.history.shown()) == 1 + 1200 + 4


def test_cleared_results_stay_cleared(log: Log) -> None:
    name = written(log, *turns(0, 100), ResultsClearedEntry(4), *turns(100, 102))
    with open_session(log, id=name) as session:
        shown = session.history.shown()
        lines = [result.text for message in shown for result in message.tool_results]
        assert sum(line.startswith("[Cleared:") for line in lines) == 99
        assert session.history.is_abridged
        assert LONG in str(session.messages[2])


def test_a_count_that_exceeds_the_messages_keeps_all(log: Log) -> None:
    name = written(log, *turns(0, 2), CompactionEntry(SUMMARY, 100))
    assert len(sent(log, name)) == 9 - 1, "the summary and the first prompt are one message"


def test_a_fork_carries_the_compaction_if_it_lies_before_the_cut(log: Log) -> None:
    name = written(log, *turns(0, 100), CompactionEntry(SUMMARY, 6), *turns(100, 102))
    assert sent(log, log.fork(name)) == sent(log, name)
    before = log.fork(name, 500)
    assert log.settings(before).abridged is None
    assert "Go on." not in str(sent(log, before))


def test_an_export_carries_the_compaction(log: Log, tmp_path: Path) -> None:
    name = written(log, *turns(0, 100), CompactionEntry(SUMMARY, 6), ResultsClearedEntry(2), *turns(100, 102))
    with Log(tmp_path / "other") as other:
        copy = import_session(other, list(export(log, name))).id
        assert sent(other, copy) == sent(log, name)


def test_the_summary_has_the_usage_of_its_request_and_is_no_turn(log: Log) -> None:
    name = written(log, *turns(0, 1), CompactionEntry(SUMMARY, 1, usage=Usage(1_000, 50)))
    assert log.session(name).usage == Usage(3_100, 80)
    assert log.session(name).turns == 2


def test_the_entries_are_shown(log: Log) -> None:
    name = written(log, *turns(0, 1), ResultsClearedEntry(1, 700, 3), CompactionEntry(SUMMARY, 1, "manual", 900, 80))
    said = [line for record in log.records(name) for line in format_entry(record)]
    assert said[-2].endswith("cleared    3 old results, 700 tokens")
    assert said[-1].endswith("compacted  900 → 80 tokens")


def test_the_usage_of_the_newest_reply_is_known_after_resuming(log: Log) -> None:
    name = written(log, *turns(0, 3))
    with open_session(log, id=name) as session:
        assert session.context.used == 2_020
    compacted = written(log, *turns(0, 3), CompactionEntry(SUMMARY, 1))
    with open_session(log, id=compacted) as session:
        assert 0 < session.context.used < 500, "an estimate of what is sent now"


def test_older_versions_would_keep_and_ignore_the_entries() -> None:
    entries = [*turns(0, 2), CompactionEntry(SUMMARY, 2), ResultsClearedEntry(1)]
    replay = SessionState(entries)
    assert replay.messages == SessionState(turns(0, 2)).messages


@settings(max_examples=examples(40))
@given(st.lists(st.integers(-12, 12), max_size=12), st.integers(0, 4))
def test_a_resumed_session_sends_what_the_first_one_would_have_sent(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int], more: int
) -> None:
    """A step over 0 is a compaction that keeps so many messages, one under 0 a clearing, and 0 a turn."""
    live, entries, number = History(), [], 0
    for step in [0, *steps, *[0] * more]:
        if step == 0:
            entries += turn(number)
            for message in SessionState(turn(number)).messages:
                live.append(message)
            number += 1
        else:
            entry = CompactionEntry(SUMMARY, step) if step > 0 else ResultsClearedEntry(-step)
            entries.append(entry)
            kept = min(abs(step), len(live))
            (live.compact(SUMMARY, kept) if step > 0 else live.clear_results(kept))
    with Log(tmp_path_factory.mktemp("log")) as log:
        name = written(log, *entries)
        assert sent(log, name) == list(live.sendable())
        assert log.messages(name) == live.messages


def look(number: int) -> str:
    """Look at a file."""
    return f"file {number}: " + "words of it " * 170


def test_a_sub_agent_compacts_and_its_summary_counts_for_the_parent(log: Log) -> None:
    done = 0

    def step(request: Request) -> Step:
        nonlocal done
        if "Write a summary" in request.reminder:
            return "## Goal\nLook."
        if any(tool.name == "Task" for tool in request.tools):
            is_new = len(request.messages) == 1
            return call("Task", description="look", prompt="Look.", subagent_type="general") if is_new else "All seen."
        done += 1
        return call("look", number=done) if done < 40 else "Seen."

    model = ScriptedModel(step, usage=Usage(1, 1), window=8_000)
    limits, compaction = Limits(max_turns=None, max_repeats=None), Compaction(clear_threshold=None)
    agent = with_subagents(Agent(model, tools=[look], limits=limits, compaction=compaction))
    seen: list[Event] = []
    with Session.open(log, agent=agent, observer=seen.append) as session:
        assert asyncio.run(session.run("Go.")).status == "done"
        (child,) = log.children(session.id)
        summaries = sum(isinstance(record.entry, CompactionEntry) for record in log.records(child.id))
        events = [event.event for event in seen if isinstance(event, SubagentEvent)]
        assert summaries == sum(isinstance(event, Compacted) for event in events) > 0
        assert session.total_usage.input_tokens == 2 + 40 + summaries
        assert log.usage_of_children(session.id).input_tokens == 40 + summaries
