"""Forking, renaming and deleting sessions, and finding them by the beginning of their ids: nothing is rewritten."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outrider.conversation.attachments import Attachment
from outrider.conversation.history import violations
from outrider.conversation.messages import AttachmentBlock, Message
from outrider.conversation.usage import Usage
from outrider.errors import AttachmentError, DamagedLogError, LogError, SessionHeldError, UnknownSessionError
from outrider.log.entries import (
    AttachmentStored,
    MessageEntry,
    SessionSettings,
    SessionStarted,
    SubagentLinked,
    UnknownEntry,
)
from outrider.log.log import Log
from outrider.log.session_files import UNREFERENCED_SECONDS
from outrider.log.sqlite.recovery import recover
from outrider.log.state import SessionState
from outrider.log.transfer import import_session
from outrider.runtime.agent import Agent
from outrider.runtime.limits import Limits
from outrider.runtime.session import Session
from outrider.testing import ScriptedModel, Step, call
from outrider.text import clean
from outrider.tools.result import ToolResult
from outrider.tools.tool import tool
from outrider.version import __version__
from tests.log import change, is_postgres
from tests.log import look as look_into

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
NEWER = b'{"depth": 3,  "new":[true]}'
SPENT = Usage(100, 10, 5, 4, 3, cost=0.25)


CARRIED_OUT: list[str] = []


@tool(effect="read")
def look(size: int) -> str:
    """Look at something."""
    CARRIED_OUT.append("look")
    return "so it is\n" * size


@tool(effect="write")
def picture() -> ToolResult:
    """Take a picture."""
    return ToolResult("a picture", [Attachment(PNG, "image/png", "shot.png")])


@tool(effect="idempotent")
def finish() -> ToolResult:
    """End the run."""
    return ToolResult("finished", final=True)


def agent(steps: Sequence[Step] | Callable[..., Step]) -> Agent:
    tools = [look, picture, finish]
    return Agent(model=ScriptedModel(steps, usage=SPENT), tools=tools, limits=Limits(result_characters=500))


def run(session: Session, *prompts: Any) -> None:
    async def runs() -> None:
        for prompt in prompts:
            assert (await session.run(prompt)).status == "done"

    asyncio.run(runs())


@pytest.fixture
def log(place: str) -> Iterator[Log]:
    with Log(place) as log:
        yield log


@pytest.fixture
def talk(log: Log) -> str:
    """A session with all kinds of entries in it."""
    steps: list[Step] = [
        ["I'll look.", call("look", size=2), call("picture"), call("look", size=1)],
        "There.",
        call("look", size=300),
        "Long.",
        [call("finish"), call("picture")],
    ]
    with Session.open(log, agent=agent(steps)) as session:
        run(session, ["Look", Attachment(b"notes", name="n.txt")], "Longer.", "End it.")
    journal = log.open(session.id)
    journal.write_now(UnknownEntry("hologram", msgspec.Raw(NEWER)), SessionSettings(title="A talk"))
    journal.close()
    return session.id


def simple(log: Log, *words: str) -> str:
    with Session.open(log, agent=agent(["Yes."] * len(words))) as session:
        run(session, *words)
    return session.id


def all_rows(log: Log, table: str = "event") -> list[tuple[Any, ...]]:
    return look_into(log, f"SELECT * FROM {table} ORDER BY 1, 2")


def number_of(log: Log, name: str) -> int:
    return int(look_into(log, "SELECT number FROM session WHERE id = ?", name)[0][0])


def rows_of(log: Log, name: str) -> list[tuple[Any, ...]]:
    """Seq, time, kind and body of each event."""
    number = number_of(log, name)
    return [row[1:5] for row in all_rows(log) if row[0] == number]


def stored(log: Log, name: str) -> list[AttachmentBlock]:
    return [record.entry.attachment for record in log.records(name) if isinstance(record.entry, AttachmentStored)]


def ids(log: Log) -> list[str]:
    return [summary.id for summary in log.sessions()]


# Fork


def test_a_fork_at_any_entry_has_what_came_before_it_and_goes_on(log: Log, talk: str) -> None:
    source, summary = rows_of(log, talk), log.session(talk)
    assert {row[2] for row in source} >= {"message", "tool_started", "tool_finished", "attachment", "hologram"}
    for at in range(1, summary.last + 1):
        fork = log.fork(talk, at)
        copy = rows_of(log, fork)
        assert copy[1:at] == source[1:at], "byte for byte, with their numbers and times"
        assert {row[2] for row in copy[at:]} <= {"tool_finished", "run_stopped"}, "what was open ends"
        messages = SessionState(record.entry for record in log.records(talk, upto=at)).messages
        assert log.messages(fork)[: len(messages)] == messages
        assert log.session(fork).last == len(copy)
        who = agent(lambda request: "Goes on.")
        with Session.open(log, fork, who) as session:
            run(session, "Go on.")
            assert session.messages[-1] == Message.assistant("Goes on.")
            assert session.messages == log.messages(fork)
            assert violations(session.history.sendable()) == []
        for request in who.provider.requests:  # type: ignore[attr-defined]
            assert violations(request.messages) == []
    assert rows_of(log, talk) == source
    assert log.session(talk) == summary


def test_a_fork_at_any_entry_runs_to_its_end_without_a_word(log: Log, talk: str) -> None:
    """What the source does with calls that were open there is its own affair: the fork does nothing again."""
    before = len(CARRIED_OUT)
    for at in range(5, log.session(talk).last + 1):
        who = agent(lambda request: "Done.")
        with Session.open(log, log.fork(talk, at), who) as session:
            run(session, "")
            assert session.history.pending == ()
            calls = [call.id for message in session.messages for call in message.tool_calls]
            results = [result.tool_use_id for message in session.messages for result in message.tool_results]
            assert results == calls
        assert len(CARRIED_OUT) == before
        for request in who.provider.requests:  # type: ignore[attr-defined]
            assert violations(request.messages) == []


def test_a_fork_without_a_place_has_everything(log: Log, talk: str) -> None:
    fork = log.fork(talk)
    assert rows_of(log, fork)[1:] == rows_of(log, talk)[1:]
    assert log.messages(fork) == log.messages(talk)
    assert log.session(fork).title == log.session(talk).title == "A talk"
    assert log.session(fork).turns == log.session(talk).turns
    assert ids(log) == [fork, talk]


def test_a_fork_says_where_it_comes_from(log: Log, talk: str) -> None:
    fork = log.fork(talk[:6], at=4)
    assert next(log.records(fork)).entry == SessionStarted(fork, __version__, forked_from=talk, forked_at=4)
    again = log.fork(fork)
    assert next(log.records(again)).entry == SessionStarted(again, __version__, forked_from=fork, forked_at=5)
    assert rows_of(log, again)[1:] == rows_of(log, fork)[1:]


def test_what_was_spent_is_not_counted_twice(log: Log, talk: str) -> None:
    spent = log.session(talk).usage
    assert spent.cost == 1.25
    fork = log.fork(talk)
    assert log.session(fork).usage == Usage()
    with Session.open(log, fork, agent(["Yes."])) as session:
        assert session.usage == Usage()
        run(session, "And now?")
        assert session.usage == SPENT
    assert log.session(fork).usage == SPENT
    assert log.session(log.fork(fork)).usage == Usage()
    assert sum(summary.usage.cost or 0 for summary in log.sessions()) == 1.5


def test_a_fork_reads_the_files_that_came_before_its_place_and_no_others(log: Log, talk: str) -> None:
    places = {
        record.seq: record.entry.attachment
        for record in log.records(talk)
        if isinstance(record.entry, AttachmentStored)
    }
    assert len(places) == 3
    for at in (1, *places, max(places) + 1):
        files = log.files(log.fork(talk, at))
        for seq, file in places.items():
            if seq <= at:
                assert files.read(file) == log.files(talk).read(file)
            else:
                with pytest.raises(AttachmentError, match="was never added to this session"):
                    files.read(file)


@pytest.mark.folder_only
def test_the_files_of_a_fork_stay_when_its_source_is_deleted(log: Log, talk: str) -> None:
    fork = log.fork(talk)
    files = {file: log.files(talk).read(file) for file in stored(log, talk)}
    log.delete(talk)
    age(log)
    assert log.remove_unreferenced_files() == (0, 0)
    assert {file: log.files(fork).read(file) for file in files} == files


@pytest.mark.folder_only
def test_a_fork_may_not_read_what_its_source_may_not(log: Log, talk: str) -> None:
    file = stored(log, talk)[0]
    body = msgspec.json.encode(AttachmentStored(file))
    began = b'{"seq":1,"time":1,"kind":"began","body":{"session":"","version":""}}'
    mention = b'{"seq":2,"time":1,"kind":"attachment","body":%s}' % body
    thief = import_session(log, [b'{"outrider_session":1,"id":""}', began, mention]).id
    with pytest.raises(AttachmentError, match="was never added to this session"):
        log.files(log.fork(thief)).read(file)


def test_a_session_that_is_held_can_be_forked(log: Log, talk: str, tmp_path: Path) -> None:
    with Session.open(log, talk, agent(["Yes."])) as session, Log(log.location) as other:
        fork = other.fork(talk)
        with Session.open(other, fork, agent(["Copied."])) as copy:
            run(copy, "In the copy.")
        run(session, "In the original.")
    assert log.messages(fork)[-1].text == "Copied."
    assert log.messages(talk)[-1].text == "Yes."
    assert log.messages(fork)[:-2] == log.messages(talk)[:-2]


def test_a_session_forks_itself_in_the_middle_of_a_run(log: Log) -> None:
    forks: list[str] = []

    @tool(effect="read")
    def fork_now() -> str:
        """Fork."""
        forks.append(log.fork(session.id))
        return "forked"

    who = Agent(model=ScriptedModel([call("fork_now"), "Done."]), tools=[fork_now])
    with Session.open(log, agent=who) as session:
        run(session, "Fork yourself.")
        assert log.messages(forks[0])[:2] == session.messages[:2]
        with Session.open(log, forks[0], Agent(model=ScriptedModel(["Done here."]), tools=[fork_now])) as copy:
            run(copy, "")
            assert copy.messages[-1].text == "Done here."
    assert len(forks) == 1, "in the copy the call is answered, and not carried out"


@pytest.mark.parametrize("at", [0, -1, 10_000, 2**70])
def test_a_place_that_is_not_there_is_refused(log: Log, talk: str, at: int) -> None:
    before = all_rows(log)
    last = log.session(talk).last
    with pytest.raises(LogError, match=f"there is no entry {at} to fork at; the session has entries 1 to {last}"):
        log.fork(talk, at)
    assert all_rows(log) == before
    assert ids(log) == [talk]


def test_a_damaged_session_is_not_forked_in_part(log: Log, talk: str) -> None:
    ((body, seq),) = ((body, seq) for body, seq in look_into(log, "SELECT body, seq FROM event") if b"Longer." in body)
    change(log, "UPDATE event SET body = ? WHERE seq = ?", body.replace(b"Longer.", b"Longest"), seq)
    before = all_rows(log, "session")
    with pytest.raises(DamagedLogError, match=r"entry .* is missing or damaged; `outrider sessions recover`"):
        log.fork(talk)
    assert all_rows(log, "session") == before
    fork = log.fork(talk, at=3)
    assert rows_of(log, fork)[1:] == rows_of(log, talk)[1:3]


@pytest.mark.folder_only
def test_a_session_that_lost_its_beginning_is_forked_with_all_that_is_left(log: Log) -> None:
    journal = log.create()
    journal.write_now(MessageEntry(Message.user("The very first words.")))
    journal.close()
    log.close()
    path = log.folder / "log.db"
    data = path.read_bytes()
    path.write_bytes(data.replace(b'{"session":"' + journal.id.encode(), b'{"Session":"' + journal.id.encode()))
    assert recover(log.folder).lost == {journal.id: 1}
    assert log.messages(log.fork(journal.id)) == [Message.user("The very first words.")]


# Rename


def test_a_new_title_is_one_entry_more(log: Log, talk: str) -> None:
    before, summary = rows_of(log, talk), log.session(talk)
    log.rename(talk[:8], "Another title")
    after = rows_of(log, talk)
    assert after[:-1] == before
    assert [record.entry for record in log.newest(talk, 1)] == [SessionSettings(title="Another title")]
    assert [(each.id, each.title) for each in log.sessions()] == [(talk, "Another title")]
    assert log.session(talk).usage == summary.usage
    assert log.session(talk).model == summary.model


def test_a_title_stays_whatever_is_said_afterwards(log: Log, talk: str) -> None:
    log.rename(talk, "Once")
    log.rename(talk, "Twice")
    with Session.open(log, talk, agent(["Yes."])) as session:
        run(session, "Something else altogether.")
    assert log.session(talk).title == "Twice"


def test_a_session_is_renamed_and_opened_at_once(log: Log, talk: str) -> None:
    for number in range(10):
        log.rename(talk, f"Title {number}")
        Session.open(log, talk, agent([])).now().close()
    assert log.session(talk).title == "Title 9"


@pytest.mark.parametrize("title", ["", " ", "\n\t"])
def test_a_title_needs_words(log: Log, talk: str, title: str) -> None:
    with pytest.raises(LogError, match="a title must not be empty"):
        log.rename(talk, title)
    assert [(each.id, each.title) for each in log.sessions()] == [(talk, "A talk")]


def test_a_title_is_one_line_of_whatever_characters(log: Log, talk: str) -> None:
    for title in ("Zwei\n Zeilen ", "\x00", "'; DROP TABLE session; --", "🦊" * 500, "half \udce9"):
        log.rename(talk, title)
        expected = " ".join(clean(title).split())
        assert log.session(talk).title == (expected.replace("\0", "\ufffd") if is_postgres(log) else expected)


def test_a_session_that_is_held_is_not_renamed(log: Log, talk: str, tmp_path: Path) -> None:
    before = rows_of(log, talk)
    refused = pytest.raises(SessionHeldError, match=f"the session {talk[:8]} is open elsewhere")
    with Session.open(log, talk, agent([])), Log(log.location) as other, refused:
        other.rename(talk, "Mine now")
    assert rows_of(log, talk) == before
    assert log.session(talk).title == "A talk"


# Delete


def family(log: Log) -> tuple[str, str, str, str]:
    """A session, two that it sent out, and one that the first of them sent out."""
    parent = simple(log, "Go.")
    names = [parent]
    for sender, call_id in ((0, "c1"), (0, "c2"), (1, "c3")):
        child = log.create(SessionSettings(model="scripted"), parent=names[sender])
        child.files.put(Attachment(call_id.encode(), name=f"{call_id}.txt"))
        child.write_now(MessageEntry(Message.user("Go and see.")))
        child.close()
        names.append(child.id)
        journal = log.open(names[sender])
        journal.write_now(SubagentLinked(call_id, child.id))
        journal.close()
    first, second, third, fourth = names
    return first, second, third, fourth


def test_a_deleted_session_takes_its_events_references_and_children_with_it(log: Log, talk: str) -> None:
    others = {table: all_rows(log, table) for table in ("session", "event", "reference")}
    parent, *rest = family(log)
    assert [summary.id for summary in log.children(parent)] == rest[:2]
    assert [summary.id for summary in log.children(rest[0])] == rest[2:]
    log.delete(parent)
    assert {table: all_rows(log, table) for table in others} == others
    assert ids(log) == [talk]
    for name in (parent, *rest):
        with pytest.raises(UnknownSessionError, match=f"there is no session '{name}'"):
            log.messages(name)


def test_a_deleted_child_leaves_its_parent(log: Log) -> None:
    parent, first, second, _ = family(log)
    log.delete(first)
    assert [summary.id for summary in log.children(parent)] == [second]
    assert len(log.messages(parent)) == 2
    assert len(all_rows(log, "session")) == 2


@pytest.mark.folder_only
def test_nothing_of_a_deleted_session_is_left_in_the_file(log: Log) -> None:
    kept = simple(log, "Remember this.")
    gone = simple(log, "A secret word: xyzzy.")
    log.delete(gone)
    log.close()
    assert b"xyzzy" not in (log.folder / "log.db").read_bytes()
    assert [path.name for path in log.folder.glob("log.db*")] == ["log.db"]
    assert ids(log) == [kept]


def test_numbers_of_deleted_sessions_are_not_given_again(log: Log) -> None:
    first = simple(log, "One.")
    number = number_of(log, first)
    log.delete(first)
    assert number_of(log, simple(log, "Two.")) > number


def test_a_session_that_is_held_is_not_deleted(log: Log, talk: str, tmp_path: Path) -> None:
    before = rows_of(log, talk)
    with Session.open(log, talk, agent(["Yes."])) as session, Log(log.location) as other:
        with pytest.raises(SessionHeldError, match=f"the session {talk[:8]} is open elsewhere"):
            other.delete(talk)
        run(session, "Are you there?")
    assert rows_of(log, talk)[: len(before)] == before


@pytest.mark.parametrize("held", [0, 1, 2, 3], ids=["itself", "its first child", "its second child", "its grandchild"])
def test_if_one_of_a_family_is_held_none_is_deleted(log: Log, tmp_path: Path, held: int) -> None:
    names = family(log)
    before = all_rows(log)
    journal = log.open(names[held])
    with Log(log.location) as other, pytest.raises(SessionHeldError, match="is open elsewhere"):
        other.delete(names[0])
    journal.close()
    assert all_rows(log) == before
    log.delete(names[0])
    assert all_rows(log) == []


def age(log: Log) -> None:
    """Have the files be as old as those that count as forgotten."""
    past = time.time() - 2 * UNREFERENCED_SECONDS
    for path in (log.folder / "attachments").glob("*/*"):
        os.utime(path, (past, past))


@pytest.mark.folder_only
def test_the_files_of_a_deleted_session_go_with_the_next_cleaning(log: Log, talk: str) -> None:
    other = simple(log, "Something else.")
    with Session.open(log, other, agent(["Seen."])) as session:
        run(session, [Attachment(b"notes", name="n.txt")])
    shared = stored(log, other)[0]
    files = {file.sha256: file for file in stored(log, talk)}
    assert shared.sha256 in files
    age(log)
    assert log.remove_unreferenced_files() == (0, 0)
    log.delete(talk)
    assert log.remove_unreferenced_files() == (2, sum(file.size for file in files.values()) - shared.size)
    assert log.files(other).read(shared) == b"notes"
    assert log.remove_unreferenced_files() == (0, 0)


# Ids


@pytest.fixture
def named(log: Log) -> list[str]:
    """Sessions whose ids begin alike."""
    names = ["abc" + "0" * 29, "abc" + "1" * 29, "abd" + "0" * 29, "f" * 32]
    for name in names:
        said = b'{"seq":2,"time":1,"kind":"message","body":{"message":{"role":"user","content":[]}}}'
        began = b'{"seq":1,"time":1,"kind":"began","body":{"session":"","version":""}}'
        assert import_session(log, [b'{"outrider_session":1,"id":"%s"}' % name.encode(), began, said]).id == name
    return names


USES: list[Callable[[Log, str], object]] = [
    lambda log, name: log.session(name),
    lambda log, name: log.messages(name),
    lambda log, name: log.files(name),
    lambda log, name: log.children(name),
    lambda log, name: log.newest(name),
    lambda log, name: log.fork(name),
    lambda log, name: log.rename(name, "x"),
    lambda log, name: Session.open(log, name, agent([])).now().close(),
    lambda log, name: log.delete(name),
]


def test_an_id_that_a_program_has_chosen_counts_whole(log: Log) -> None:
    with Session.open(log, "case-17", agent(["One."]), create=True) as session:
        run(session, "one")
    assert not log.has("case-1")
    for use in USES:
        with pytest.raises(UnknownSessionError, match="there is no session 'case-1'"):
            use(log, "case-1")
    assert log.session("case-17").id == "case-17"


@pytest.mark.parametrize("prefix", ["abc0", "abd", "f", "f" * 31])
def test_the_beginning_of_an_id_is_enough_if_it_is_the_only_one(log: Log, named: list[str], prefix: str) -> None:
    assert log.session(prefix).id == next(name for name in named if name.startswith(prefix))
    log.delete(prefix)
    assert len(all_rows(log, "session")) == 3


@pytest.mark.parametrize("use", USES)
def test_a_beginning_that_several_share_is_refused(
    log: Log, named: list[str], use: Callable[[Log, str], object]
) -> None:
    for prefix in ("a", "ab", "abc"):
        with pytest.raises(UnknownSessionError, match=f"several sessions begin with '{prefix}'; give more of the id"):
            use(log, prefix)
    assert len(all_rows(log, "session")) == 4


@pytest.mark.parametrize("use", USES)
def test_the_empty_id_names_no_session(log: Log, named: list[str], use: Callable[[Log, str], object]) -> None:
    for count in (4, 1):
        with pytest.raises(UnknownSessionError, match="give the id of a session; `outrider sessions` lists them"):
            use(log, "")
        for name in named[1:count]:
            log.delete(name)


ODD_IDS = [
    "%",
    "_",
    "abc%",
    "ab_",
    "a*",
    "a?",
    "[a]",
    "ABC",
    " abc",
    "abc ",
    "abc\x00",
    "' OR 1=1 --",
    "f" * 33,
    "\U0010ffff",
]


@pytest.mark.parametrize("name", [*ODD_IDS, "é", "g", "0", "-1", "1"])
def test_an_id_that_is_not_there_is_unknown_whatever_its_characters(log: Log, named: list[str], name: str) -> None:
    for use in USES:
        with pytest.raises(UnknownSessionError) as caught:
            use(log, name)
        assert str(caught.value) == f"there is no session {name!r}; `outrider sessions` lists them"
    assert len(all_rows(log, "session")) == 4


def test_an_id_that_is_not_utf8_is_unknown(log: Log, named: list[str]) -> None:
    with pytest.raises(UnknownSessionError, match="there is no session"):
        log.session("abc\udce9")


@pytest.mark.folder_only
def test_without_a_log_no_session_is_known(log: Log) -> None:
    for use in USES:
        with pytest.raises(UnknownSessionError, match=r"there is no session 'abc': .* has no log"):
            use(log, "abc")
    assert not (log.folder / "log.db").exists(), "looking makes no file"
