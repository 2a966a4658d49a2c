"""The end of a long session can be replayed on its own, and the pages before it add up to the whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from outrider.conversation.messages import Message, TextBlock, ToolResultBlock, ToolUseBlock
from outrider.log.entries import CallResult, CompactionEntry, Entry, MessageEntry, RewindEntry
from outrider.log.log import Log


@pytest.fixture
def log(place: str) -> Iterator[Log]:
    with Log(place) as log:
        yield log


def exchange(number: int) -> list[Entry]:
    """A prompt, two calls with their results, and the answer: four messages in six entries."""
    uses = [ToolUseBlock(f"c{number}-{each}", "Read", {}) for each in range(2)]
    return [
        MessageEntry(Message.user(f"question {number}")),
        MessageEntry(Message.assistant(*uses)),
        *(CallResult(ToolResultBlock(use.id, (TextBlock(f"content {use.id}"),))) for use in uses),
        MessageEntry(Message.assistant(f"answer {number}")),
    ]


def written(log: Log, entries: Sequence[Entry]) -> str:
    journal = log.create()
    for entry in entries:
        journal.write_now(entry)
    journal.close()
    return journal.id


def pages(log: Log, name: str, upto: int, entries: int = 7) -> list[list[Message]]:
    """All pages, the newest first."""
    found = []
    while True:
        replay, upto = log.state_at_end(name, upto, entries=entries, size=1_000_000)
        found.append(replay.messages)
        if not upto:
            return found


def joined(found: list[list[Message]]) -> list[Message]:
    return [message for page in reversed(found) for message in page]


def test_pages_add_up_to_the_conversation_before_any_entry(log: Log) -> None:
    name = written(log, [entry for number in range(12) for entry in exchange(number)])
    for upto in (1, 2, 5, 30, 44, log.session(name).last):
        assert joined(pages(log, name, upto)) == log.messages(name, upto)
    found = pages(log, name, log.session(name).last)
    assert len(found) > 5
    assert all(page[0].role == "assistant" for page in found[:-1])


def test_a_page_goes_back_as_far_as_its_rewinds(log: Log) -> None:
    entries = [entry for number in range(6) for entry in exchange(number)]
    entries += [RewindEntry(4, dropped=12), *exchange(6), RewindEntry(5, dropped=4)]
    entries += [RewindEntry(5, dropped=4, undo=True), *exchange(7), *exchange(8)]
    name = written(log, entries)
    for upto in range(20, log.session(name).last + 1):
        assert joined(pages(log, name, upto, 3)) == log.messages(name, upto), upto


def test_a_page_begins_with_a_reply_though_a_rewind_dropped_all_before_its_prompt(log: Log) -> None:
    """What sends a page leaves out the message that is put in front of a reply; it must not be a real one."""
    entries: list[Entry] = [MessageEntry(Message.user("Hello.")), MessageEntry(Message.assistant("Hello."))] * 6
    entries += [RewindEntry(4, dropped=5), MessageEntry(Message.user("And?")), MessageEntry(Message.assistant("No."))]
    name = written(log, entries)
    last = log.session(name).last
    for count in range(3, 12):
        found = pages(log, name, last, count)
        assert joined(found) == log.messages(name, last)
        assert all(page[0].role == "assistant" for page in found[:-1]), count


def test_a_compacted_session_has_its_summary_and_what_follows(log: Log) -> None:
    entries = [entry for number in range(30) for entry in exchange(number)]
    entries += [CompactionEntry(Message.user("A summary."), kept=6), *exchange(8)]
    name = written(log, entries)
    replay, before = log.state_at_end(name, log.session(name).last, entries=3, size=1_000_000)
    assert before == 0
    assert replay.history.summary == Message.user("A summary.")
    assert replay.messages[replay.history.start :] == log.messages(name)[-10:]
    assert len(replay.messages) < len(log.messages(name))


def test_large_entries_make_small_pages(log: Log) -> None:
    name = written(log, [MessageEntry(Message.assistant("x" * 10_000)) for _ in range(450)])
    replay, before = log.state_at_end(name, 451, entries=100_000, size=100_000)
    assert len(replay.messages) == 200
    assert before == 251
