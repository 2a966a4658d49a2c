"""Long sessions: opening reads only the tail; the rest is loaded on first use."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.conversation.history import History, violations
from outrider.conversation.messages import Message, TextBlock, ToolResultBlock, ToolUseBlock
from outrider.conversation.usage import Usage
from outrider.errors import LogError
from outrider.log.copying import NOT_IN_THIS_COPY
from outrider.log.entries import CallResult, Entry, Intent, MessageEntry
from outrider.log.log import Log
from outrider.log.reader import PAGE
from outrider.runtime.session import Session
from outrider.testing import call
from tests.log import change, kinds_of, look, open_session


def turn(number: int) -> list[Entry]:
    """Five entries: a prompt, a call, its result, and the answer."""
    use = ToolUseBlock(f"c{number}", "read", {"path": f"{number}.txt"})
    return [
        MessageEntry(Message.user(f"question {number}")),
        MessageEntry(Message.assistant(use), Usage(1, 1)),
        Intent(use.id, "read", "read", f"key {number}", use.input),
        CallResult(ToolResultBlock(use.id, (TextBlock(f"content {number}"),))),
        MessageEntry(Message.assistant(f"answer {number}"), Usage(1, 1)),
    ]


def open_at(seq: int) -> bool:
    """Whether a call waits for its answer at that entry of a session of such turns."""
    return (seq - 2) % 5 in (1, 2)


def written(log: Log, entries: Iterable[Entry]) -> str:
    """A session with these entries."""
    journal = log.create()
    everything = list(entries)
    for start in range(0, len(everything), 500):
        journal.write_now(*everything[start : start + 500])
    journal.close()
    return journal.id


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, list[Message]]:
    """A log with a session of 5,000 entries. Whoever changes it works on a fork."""
    folder = tmp_path_factory.mktemp("long")
    with Log(folder) as log:
        name = written(log, (entry for number in range(1000) for entry in turn(number)))
        return folder, name, log.messages(name)


class Reads:
    """Counts how often a session is read from its beginning."""

    def __init__(self, log: Log) -> None:
        self.count = 0
        self.threads: set[int] = set()
        """Which threads did it."""
        self._messages = log.messages
        log.messages = self._counted  # type: ignore[method-assign]

    def _counted(self, *args: Any, **options: Any) -> list[Message]:
        self.count += 1
        self.threads.add(threading.get_ident())
        return self._messages(*args, **options)


@pytest.fixture
def log(long: tuple[Path, str, list[Message]]) -> Iterator[Log]:
    with Log(long[0]) as log:
        yield log


def read(path: str) -> str:
    return f"content of {path}"


# Opening


def test_opening_a_long_session_reads_only_a_page_of_it(log: Log, long: tuple[Path, str, list[Message]]) -> None:
    _, name, messages = long
    reads = Reads(log)
    with open_session(log, id=name) as session:
        tail = session.history.tail
        assert 0 < len(tail) <= PAGE
        assert tail == messages[-len(tail) :]
        assert session.history.last == messages[-1]
        assert session.history.pending == ()
        assert session.history
        assert session.usage == Usage(2000, 2000)
        assert not session.history.is_loaded
        assert reads.count == 0


@pytest.mark.parametrize(
    "ask",
    [
        lambda session: session.messages,
        lambda session: session.history.messages,
        lambda session: [None] * len(session.history),
        lambda session: session.history.sendable(),
        lambda session: session.history.load() or session.history.tail,
    ],
    ids=["messages", "history", "len", "sendable", "complete"],
)
def test_all_messages_can_be_read_and_are_read_once(
    log: Log, long: tuple[Path, str, list[Message]], ask: Callable[[Session], Any]
) -> None:
    _, name, messages = long
    reads = Reads(log)
    with open_session(log, id=name) as session:
        assert len(ask(session)) == len(messages)
        assert session.messages == messages
        assert list(session.history.sendable()) == messages
        assert violations(session.history.sendable()) == []
        assert session.history.tail == messages
        assert session.history.is_loaded
        assert reads.count == 1


async def test_a_run_sends_the_whole_conversation_and_goes_on(log: Log, long: tuple[Path, str, list[Message]]) -> None:
    _, name, messages = long
    fork = log.fork(name)
    reads = Reads(log)
    with open_session(log, [call("read", path="new"), "done"], [read], id=fork) as session:
        result = await session.run("one more")
        first, second = session.provider.requests  # type: ignore[attr-defined]
        assert list(first.messages) == [*messages, Message.user("one more")]
        assert list(second.messages) == result.conversation[:-1]
        assert reads.count == 1
        assert threading.get_ident() not in reads.threads, "the event loop has better things to do"
        assert log.messages(fork) == session.messages
        calls = [use.id for message in session.messages for use in message.tool_calls]
        assert len(calls) == len(set(calls)) == 1001


async def test_what_is_added_before_the_rest_was_read_comes_after_it(
    log: Log, long: tuple[Path, str, list[Message]]
) -> None:
    _, name, messages = long
    fork = log.fork(name)
    with open_session(log, ["ok"], id=fork) as session:
        session.history.append(Message.user("in between"))
        assert session.messages == [*messages, Message.user("in between")]


async def test_a_cancel_while_the_beginning_is_read_neither_doubles_nor_loses_anything(
    log: Log, long: tuple[Path, str, list[Message]]
) -> None:
    name = log.fork(long[1])
    reading, go_on, real = threading.Event(), threading.Event(), log.messages

    def slowly(*args: Any, **options: Any) -> list[Message]:
        reading.set()
        assert go_on.wait(30)
        return real(*args, **options)

    log.messages = slowly  # type: ignore[method-assign]
    with open_session(log, ["The answer.", "Another."], id=name) as session:
        running = asyncio.ensure_future(session.run("first"))
        await asyncio.to_thread(reading.wait, 30)
        session.cancel()
        await asyncio.sleep(0)
        go_on.set()
        assert (await running).status == "cancelled"
        await session.run("second")
        await session.run("third")
        assert session.messages == real(name)
        said = [message.text for message in session.messages[len(long[2]) :]]
        assert [words for words in said if words in ("second", "The answer.", "third", "Another.")] == [
            "second",
            "The answer.",
            "third",
            "Another.",
        ]
        sent = session.provider.requests[0].messages  # type: ignore[attr-defined]
        assert len(sent) < len(long[2]) + 5, "nothing was sent twice"


async def test_an_id_that_was_used_long_ago_is_not_used_again(log: Log, long: tuple[Path, str, list[Message]]) -> None:
    fork = log.fork(long[1])
    reply = Message.assistant(ToolUseBlock("c3", "read", {"path": "a"}))
    with open_session(log, [reply, "ok"], [read], id=fork) as session:
        await session.run("again")
        assert [use.id for use in session.messages[-3].tool_calls] == ["c3-2"]
        assert violations(session.history.sendable()) == []


async def test_a_long_session_whose_beginning_cannot_be_read_says_so_instead_of_asking_half(
    log: Log, long: tuple[Path, str, list[Message]]
) -> None:
    fork = log.fork(long[1])
    number = look(log, "SELECT number FROM session WHERE id = ?", fork)[0][0]
    change(log, "UPDATE event SET body = x'7b' WHERE session = ? AND seq = 5", number)
    with open_session(log, ["never"], id=fork) as session:
        result = await session.run("one more")
        assert result.status == "error"
        assert "entry 5 of a session is missing or damaged" in result.error
        assert session.provider.requests == []  # type: ignore[attr-defined]
        assert result.conversation == session.history.tail
        assert result.conversation[-1] == Message.user("one more")


def test_a_fork_may_be_cut_anywhere_in_a_long_session(log: Log, long: tuple[Path, str, list[Message]]) -> None:
    _, name, messages = long
    for cut in (1, 2, 3, PAGE, PAGE + 1, PAGE + 2, 2503):
        fork = log.fork(name, at=cut)
        with open_session(log, id=fork) as session:
            assert violations(session.history.sendable()) == []
            assert session.messages == log.messages(fork)
            if open_at(cut):
                assert NOT_IN_THIS_COPY in session.messages[-1].tool_results[0].text
                assert session.messages[:-1] == messages[: len(session.messages) - 1]
            else:
                assert session.messages == messages[: len(session.messages)]
            assert session.history.pending == ()


def test_a_fork_at_an_entry_that_is_not_there_is_refused(log: Log, long: tuple[Path, str, list[Message]]) -> None:
    last = log.session(long[1]).last
    for cut in (0, -1, last + 1, 10**9):
        with pytest.raises(LogError, match=f"there is no entry {cut} to fork at; the session has entries 1 to {last}"):
            log.fork(long[1], at=cut)


# Where the end begins


@pytest.mark.parametrize("length", [PAGE - 2, PAGE - 1, PAGE, PAGE + 1, 8 * PAGE - 1, 8 * PAGE, 8 * PAGE + 1, 2000])
def test_an_end_without_a_reply_is_read_until_one_is_found(tmp_path: Path, length: int) -> None:
    users = [Message.user(f"and {number}") for number in range(length)]
    said = [Message.user("question"), Message.assistant("answer"), *users]
    with Log(tmp_path) as log:
        name = written(log, map(MessageEntry, said))
        with open_session(log, id=name) as session:
            assert session.history.tail[0] in (Message.assistant("answer"), Message.user("question"))
            assert session.messages == said
            assert session.history.pending == ()
            assert violations(session.history.sendable()) == []


@pytest.mark.parametrize("length", [0, 1, PAGE - 1, PAGE, 1000])
def test_a_session_without_any_reply_is_read_whole(tmp_path: Path, length: int) -> None:
    said = [Message.user(f"and {number}") for number in range(length)]
    with Log(tmp_path) as log:
        name = written(log, map(MessageEntry, said))
        with open_session(log, id=name) as session:
            assert session.history.tail == said
            assert session.messages == said


@pytest.mark.parametrize("replies", [1, PAGE // 2, PAGE])
def test_a_reply_at_any_place_of_the_first_page_is_a_beginning(tmp_path: Path, replies: int) -> None:
    said = [Message.user("x")] * (2 * PAGE) + [Message.assistant("y"), Message.user("z")] * replies
    with Log(tmp_path) as log:
        name = written(log, map(MessageEntry, said))
        with open_session(log, id=name) as session:
            assert session.history.tail[0].role == "assistant"
            assert session.messages == said


def test_a_reply_with_more_calls_than_a_page_has_room_for_is_taken_up_where_it_stood(tmp_path: Path) -> None:
    uses = [ToolUseBlock(f"c{number}", "read", {"path": str(number)}) for number in range(300)]
    answered, begun = uses[:250], uses[250:]
    entries: list[Entry] = [
        *turn(0),
        MessageEntry(Message.user("read them all")),
        MessageEntry(Message.assistant(*uses)),
        *(
            Intent(use.id, "read", "read" if use in answered[:1] or int(use.id[1:]) % 2 else "write", use.id, use.input)
            for use in uses
        ),
        *(CallResult(ToolResultBlock(use.id, (TextBlock("content"),))) for use in answered),
    ]
    with Log(tmp_path) as log:
        name = written(log, entries)
        with open_session(log, tools=[read], id=name) as session:
            assert [use.id for use in session.history.pending] == [use.id for use in uses]
            assert len(session.messages) == 6
        settled = [kind for kind in kinds_of(log, name) if kind == "tool_finished"]
        assert len(settled) == 1 + 250 + len(begun) // 2, "half of the begun calls were writes, and are settled"


# Many sessions


@pytest.mark.long
def test_a_list_of_many_sessions_is_quick_and_in_order(tmp_path: Path) -> None:
    with Log(tmp_path) as log:

        def begin(number: int) -> str:
            journal = log.create()
            journal.write_now(MessageEntry(Message.user(f"session {number}")))
            return journal.id

        with ThreadPoolExecutor(16) as pool:
            names = list(pool.map(begin, range(2000)))
        begun = time.thread_time()  # work, not time: other programs may be busy
        found = log.sessions()
        assert time.thread_time() - begun < 2
        assert {summary.id for summary in found} == set(names)
        assert len(found) == 2000
        assert [summary.id for summary in log.sessions(limit=10)] == [summary.id for summary in found[:10]]
        with closing(log.open(names[7])) as journal:
            journal.write_now(MessageEntry(Message.user("again")))
        assert log.sessions(limit=1)[0].title == "session 7", "the one that was used last comes first"
        begun = time.thread_time()
        assert log.session(names[0]).title == "session 0"
        assert time.thread_time() - begun < 0.5


# The history itself

words = st.sampled_from(["a", "b", " ", ""])
uses = st.builds(ToolUseBlock, st.sampled_from(["x", "y", "x-2"]), st.just("read"), st.just({}))
results = st.builds(ToolResultBlock, st.sampled_from(["x", "y", "x-2"]), st.just((TextBlock("r"),)))
blocks = st.builds(TextBlock, words) | uses | results
messages = st.builds(Message, st.sampled_from(["user", "assistant"]), st.lists(blocks, max_size=3).map(tuple))
conversations = st.lists(messages, max_size=8)


class Earlier:
    """The first part of a conversation, and how often it was asked for."""

    def __init__(self, messages: Iterable[Message], failures: int = 0) -> None:
        self.asked = 0
        self._messages = list(messages)
        self._failures = failures

    def __call__(self) -> Iterable[Message]:
        self.asked += 1
        if self.asked <= self._failures:
            raise OSError("the disk is tired")
        return iter(self._messages)


@given(conversations, conversations, conversations)
def test_a_history_in_two_parts_is_the_same_as_in_one(
    first: list[Message], second: list[Message], third: list[Message]
) -> None:
    earlier = Earlier(first)
    parts = History(second, earlier)
    whole = History([*first, *second])
    assert parts.tail == second
    for message in third:
        parts.append(message)
        whole.append(message)
    assert earlier.asked == 0
    assert parts.sendable() == whole.sendable()
    assert violations(parts.sendable()) == []
    assert parts.messages == parts.tail == whole.messages
    assert (len(parts), parts.last, parts.pending) == (len(whole), whole.last, whole.pending)
    adopted = Message.assistant(ToolUseBlock("x", "read", {}), "b")
    assert parts.normalized(adopted) == whole.normalized(adopted)
    assert earlier.asked == 1


@given(conversations, conversations, st.sampled_from(["messages", "len", "sendable", "adopted"]))
def test_a_first_part_that_cannot_be_had_at_once_is_asked_for_again(
    first: list[Message], second: list[Message], what: str
) -> None:
    ask: dict[str, Callable[[History], Any]] = {
        "messages": lambda history: history.messages,
        "len": len,
        "sendable": lambda history: list(history.sendable()),
        "adopted": lambda history: history.normalized(Message.assistant(ToolUseBlock("x", "read", {}))),
    }
    history = History(second, Earlier(first, failures=1))
    with pytest.raises(OSError, match="tired"):
        ask[what](history)
    assert history.tail == second, "what was there is still there"
    history.append(Message.user("more"))
    assert ask[what](history) == ask[what](History([*first, *second, Message.user("more")]))
    assert history.messages == [*first, *second, Message.user("more")]


def test_what_needs_only_the_end_does_not_ask_for_the_beginning() -> None:
    earlier = Earlier([Message.user("hello")])
    use = ToolUseBlock("c", "read", {})
    history = History([Message.assistant(use)], earlier)
    assert history.pending == (use,)
    assert history.last == Message.assistant(use)
    assert history
    assert history.tail == [Message.assistant(use)]
    assert earlier.asked == 0


def test_a_history_of_which_nothing_was_read_yet_is_not_empty() -> None:
    assert History([], Earlier([Message.user("hello")]))
    assert not History([])


def test_what_was_handed_out_stays_as_it_was() -> None:
    history = History([Message.assistant("b")], Earlier([Message.user("a")]))
    given = history.sendable()
    before = list(given)
    history.append(Message.user("c"))
    history.append(Message.user("d"))
    assert list(given) == before == [Message.user("a"), Message.assistant("b")]
