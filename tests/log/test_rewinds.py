"""Rewinds in the log: a view of the conversation that survives everything, beside compactions."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider import Log
from outrider.conversation.history import violations
from outrider.conversation.messages import Message, TextBlock, ToolResultBlock, ToolUseBlock
from outrider.conversation.user_messages import user_messages
from outrider.log.entries import CallResult, CompactionEntry, Entry, MessageEntry, ResultsClearedEntry, RewindEntry
from outrider.log.reader import PAGE
from outrider.log.state import SessionState
from outrider.prompts import prompt
from tests.lengths import examples
from tests.log import open_session
from tests.log.test_compactions import SUMMARY, turn, turns, written


@pytest.fixture
def log(place: str) -> Iterator[Log]:
    with Log(place) as log:
        yield log


def texts(replay: SessionState) -> list[str]:
    return [message.text for message in replay.messages if message.text]


def test_a_rewind_to_before_a_compaction_takes_it_back() -> None:
    replay = SessionState([*turns(0, 3), CompactionEntry(SUMMARY, 2), *turns(3, 5)])
    assert replay.history.summary == SUMMARY
    replay.apply(RewindEntry(2, 16))
    assert replay.history.summary is None
    assert texts(replay) == ["question 0", "answer 0"]
    replay.apply(RewindEntry(2, 16, undo=True))
    assert (replay.history.summary, replay.history.start) == (SUMMARY, 10)
    replay.apply(RewindEntry(4, 8))
    assert (replay.history.summary, replay.history.start, len(replay.messages)) == (SUMMARY, 10, 12)


def test_results_in_the_message_of_the_user_stay_so_that_no_call_runs_again() -> None:
    use = ToolUseBlock("c", "write", {})
    answered = Message.user(ToolResultBlock("c", (TextBlock("not run"),), is_error=True), TextBlock("go on"))
    said = [Message.user("one"), Message.assistant(use), answered, Message.assistant("done")]
    replay = SessionState([*map(MessageEntry, said), RewindEntry(2, 2)])
    assert replay.messages == [*said[:2], Message.user(*answered.tool_results)]
    assert replay.history.pending == ()
    assert replay.open_calls == []


def test_the_mark_of_an_interruption_is_no_message_of_the_user() -> None:
    said = [Message.user("one"), Message.assistant("I wa"), Message.user(prompt("interrupted")), Message.user("two")]
    assert user_messages(said) == [0, 3]


def test_late_results_of_a_call_that_was_left_out_change_nothing() -> None:
    replay = SessionState([*turn(0), *turn(1)[:3], RewindEntry(2, 2)])
    before = list(replay.messages)
    replay.apply(CallResult(ToolResultBlock(f"call_{1:020}", (TextBlock("late"),))))
    assert replay.messages == before


def test_a_long_session_is_opened_as_it_was_rewound(log: Log) -> None:
    name = written(log, *turns(0, PAGE), RewindEntry(3, 4 * PAGE - 8), *turns(1000, 1001))
    with open_session(log, id=name) as session:
        said = [message.text for message in session.messages if message.text]
        assert said == ["question 0", "answer 0", "question 1", "answer 1", "question 1000", "answer 1000"]
        assert violations(session.history.sendable()) == []
    assert log.settings(name).rewound


steps = st.lists(st.sampled_from(["turn", "rewind", "undo", "compact", "clear"]), max_size=14)


@settings(max_examples=examples(60))
@given(steps, st.randoms(use_true_random=False))
def test_any_rewinds_and_compactions_leave_a_sound_conversation(steps: list[str], random: Random) -> None:
    replay = SessionState()
    expected: list[str] = []
    former: list[list[str]] = []
    number = 0
    for step in steps:
        for entry in _entries(step, replay, number, random):
            replay.apply(entry)
        if step == "turn":
            expected = [*expected, f"question {number}", f"answer {number}"]
            number += 1
        elif step == "rewind" and expected:
            former.append(expected)
            expected = expected[: 2 * (replay.rewinds[-1].to - 1)]
        elif step == "undo" and former:
            expected = former.pop()
        assert texts(replay) == expected
        history = replay.history
        assert violations(history.sendable()) == []
        assert replay.history.start <= len(replay.messages)
        assert len(replay.seqs) == len(replay.messages)


def _entries(step: str, replay: SessionState, number: int, random: Random) -> list[Entry]:
    if step == "turn":
        return turn(number)
    if step == "undo":
        return [RewindEntry(1, undo=True)]
    if not replay.messages:
        return []
    if step == "compact":
        return [CompactionEntry(SUMMARY, 4 * random.randrange(len(replay.messages) // 4 + 1))]
    if step == "clear":
        return [ResultsClearedEntry(random.randrange(len(replay.messages)))]
    found = user_messages(replay.messages)
    to = random.randrange(len(found))
    return [RewindEntry(to + 1, len(replay.messages) - found[to])]
