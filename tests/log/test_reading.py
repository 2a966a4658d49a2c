"""What front ends read from a log: lists of sessions, pages of entries, what was left out; and refusals."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from outrider import Agent, Session
from outrider.conversation.messages import Message
from outrider.conversation.usage import Usage
from outrider.errors import LogError, SessionHeldError, SessionLostError, UnknownSessionError
from outrider.log.entries import (
    CompactionEntry,
    Entry,
    MessageEntry,
    ResultsClearedEntry,
    RewindEntry,
    RunStarted,
    RunStopped,
    SessionSettings,
)
from outrider.log.log import Log
from outrider.log.rows import encode
from outrider.log.session_filter import CHATS, SessionFilter
from outrider.testing import ScriptedModel
from tests.log import change


@pytest.fixture
def log(place: str) -> Iterator[Log]:
    with Log(place) as log:
        yield log


def written(log: Log, *entries: Entry) -> str:
    journal = log.create()
    journal.write_now(*entries)
    journal.close()
    return journal.id


def said(text: str) -> MessageEntry:
    return MessageEntry(Message.user(text))


def test_a_list_shows_the_sessions_of_a_filter(log: Log) -> None:
    began = time.time()
    cheap = written(log, SessionSettings(model="fast", cwd="/a"), said("cheap"))
    reply = MessageEntry(Message.assistant("Yes."), model="slow", usage=Usage(1, 1, cost=2.5))
    dear = written(log, SessionSettings(model="slow", cwd="/b"), said("dear"), reply)

    def listed(where: SessionFilter) -> list[str]:
        return [summary.id for summary in log.sessions(where=where)]

    assert listed(SessionFilter()) == [dear, cheap]
    assert listed(SessionFilter(folder="/a")) == [cheap]
    assert listed(SessionFilter(model="slow")) == [dear]
    assert listed(SessionFilter(min_cost=1.0)) == [dear]
    assert listed(SessionFilter(since=began - 60, until=began + 60)) == [dear, cheap]
    assert listed(SessionFilter(since=began + 60)) == listed(SessionFilter(until=began - 60)) == []
    assert listed(SessionFilter(folder="/a", model="slow")) == []
    assert [hit.session for hit in log.search("dear", where=SessionFilter(folder="/b"))] == [dear]
    assert log.search("dear", where=SessionFilter(folder="/a")) == []


def test_a_list_shows_conversations_and_other_sessions_on_request(log: Log) -> None:
    reply = MessageEntry(Message.assistant("Yes."))
    made = {
        origin: written(log, SessionSettings(origin=origin, cwd="/a"), said(f"By {origin}"), reply)
        for origin in ("chat", "editor", "print", "batch", "python")
    }
    older = written(log, SessionSettings(cwd="/a"), said("By an older version"), reply)
    empty = written(log, SessionSettings(origin="chat"), said("No answer came"))
    begun = log.create(SessionSettings(origin="chat"))
    begun.write_now(said("The answer is on its way"))

    def listed(where: SessionFilter) -> list[str]:
        return [summary.id for summary in log.sessions(where=where)]

    assert listed(CHATS) == [begun.id, older, made["editor"], made["chat"]]
    begun.close()
    assert listed(CHATS) == [older, made["editor"], made["chat"]], "without an answer, and nobody works on it"
    assert {*listed(SessionFilter())} == {*made.values(), older, empty, begun.id}
    assert listed(SessionFilter(origins=("batch",))) == [made["batch"]]
    assert [log.session(name).origin for name in (made["print"], older)] == ["print", ""]


def test_sessions_of_some_folders_come_first_with_those_inside(log: Log) -> None:
    folders = ("/repo", "/repository", "/repo/src", "/tree%", "/else", "/tree%/a", "")
    by = {each: written(log, SessionSettings(cwd=each), said(f"in {each}")) for each in folders}

    def listed(first: tuple[str, ...], **page: int) -> list[str]:
        return [summary.folder for summary in log.sessions(first=first, **page)]

    assert listed(()) == list(by)[::-1]
    assert listed(("/repo",)) == ["/repo/src", "/repo", "", "/tree%/a", "/else", "/tree%", "/repository"]
    assert listed(("/repo/", "/tree%"), limit=3, offset=1) == ["/tree%", "/repo/src", "/repo"]


def test_sessions_are_found_by_words_of_their_title(log: Log) -> None:
    attic = written(log, said("What is in the Attic?"))
    share = written(log, said("100% of the attics, _all_"))

    def listed(title: str) -> list[str]:
        return [summary.id for summary in log.sessions(where=SessionFilter(title=title))]

    assert listed("ATTIC") == [share, attic]
    assert listed("attic what") == [attic]
    assert listed("0%") == listed("_all_") == [share]
    assert listed("0_") == listed("cellar") == []


def test_sessions_are_found_by_owner_and_metadata(log: Log) -> None:
    ada = written(log, SessionSettings(owner="ada", metadata={"case": "17", "null": "x"}), said("ada's"))
    both = written(log, SessionSettings(owner="ada", metadata={"case": "18", "a.b-c_d": "ü'\""}), said("ada's too"))
    bob = written(log, SessionSettings(owner="bob", metadata={"case": "17"}), said("bob's"))
    written(log, said("nobody's"))

    def listed(**fields: Any) -> list[str]:
        return [summary.id for summary in log.sessions(where=SessionFilter(**fields))]

    assert listed(owner="ada") == [both, ada]
    assert listed(metadata={"case": "17"}) == [bob, ada]
    assert listed(owner="ada", metadata={"case": "17"}) == listed(metadata={"case": "17", "null": "x"}) == [ada]
    assert listed(metadata={"a.b-c_d": "ü'\""}) == [both]
    assert listed(owner="eve") == listed(metadata={"none": "17"}) == listed(metadata={"case": "null"}) == []
    summary = log.session(both)
    assert (summary.owner, summary.metadata) == ("ada", {"case": "18", "a.b-c_d": "ü'\""})
    assert log.search("ada", where=SessionFilter(owner="bob")) == []
    log.annotate(bob, owner="ada", metadata={})
    assert {*listed(owner="ada")} == {bob, both, ada}
    assert listed(metadata={"case": "17"}) == [ada]
    log.annotate(bob, owner="")
    assert log.session(bob).owner == ""


@pytest.mark.parametrize("key", ["", "a b", "a'", 'a"', "a}", "ä", "a" * 65, 3])
def test_a_key_of_metadata_that_could_be_a_part_of_a_query_is_refused(log: Log, key: Any) -> None:
    name = written(log, said("one"))
    with pytest.raises(ValueError, match="is no key of metadata: write"):
        log.annotate(name, metadata={key: "x"})
    with pytest.raises(ValueError, match="is no key of metadata: write"):
        log.sessions(where=SessionFilter(metadata={key: "x"}))


def test_metadata_is_small_and_of_strings(log: Log) -> None:
    name = written(log, said("one"))
    for wrong, kind, says in (
        ({"n": 3}, TypeError, r"metadata\['n'\] must be a string, not int"),
        (["n"], TypeError, "must be a mapping of strings, not list"),
        ({"n": "x" * 1001}, ValueError, "at most 1,000 characters"),
        ({"n": "caf\ud800"}, ValueError, "all in UTF-8"),
        ({str(number): "" for number in range(51)}, ValueError, "at most 50"),
    ):
        with pytest.raises(kind, match=says):
            log.annotate(name, metadata=wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="owner must be a string"):
        log.annotate(name, owner=3)  # type: ignore[arg-type]


def test_unfinished_sessions_have_a_run_without_an_end(log: Log) -> None:
    never = written(log, said("before there were runs"))
    done = written(log, RunStarted(), said("done"), RunStopped("done"))
    killed = written(log, RunStarted(), said("first"), RunStopped("done"), RunStarted(), said("killed"))
    limited = written(log, RunStarted(), said("limited"), RunStopped("max_turns"))

    def listed(**fields: Any) -> list[str]:
        return [summary.id for summary in log.sessions(where=SessionFilter(**fields))]

    assert listed(unfinished=True) == [killed]
    assert {*listed()} == {never, done, killed, limited}
    log.annotate(killed, owner="ada")
    assert listed(unfinished=True, owner="ada") == [killed]
    assert listed(unfinished=True, owner="bob") == []


def test_an_imported_session_has_no_owner(log: Log) -> None:
    kind, body = encode(SessionSettings(owner="admin", metadata={"case": "17"}, title="Mine"))
    name = log.add("", [(2, 1.0, kind, body), (3, 1.0, *encode(said("one")))], [])
    summary = log.session(name)
    assert (summary.title, summary.owner, summary.metadata) == ("Mine", "", {})
    assert log.session(log.fork(written(log, SessionSettings(owner="ada"), said("one")))).owner == "ada"


async def test_a_session_is_opened_with_an_owner_and_metadata(log: Log) -> None:
    agent = Agent(ScriptedModel(["Hello."]))
    async with Session.open(log, agent=agent, owner="ada", metadata={"case": "17"}) as session:
        await session.run("Hi.")
        assert (log.session(session.id).owner, log.session(session.id).metadata) == ("ada", {"case": "17"})
        session.annotate(metadata={"case": "18"})
    async with Session.open(log, session.id, agent) as session:
        assert (log.session(session.id).owner, log.session(session.id).metadata) == ("ada", {"case": "18"})
    with pytest.raises(TypeError, match="owner must be a string"):
        Session.open(log, agent=agent, owner=3)  # type: ignore[arg-type]


def test_entries_are_read_in_pages_in_both_directions(log: Log) -> None:
    name = written(log, *(said(str(number)) for number in range(5)))
    assert [record.seq for record in log.after(name, 2, 3)] == [3, 4, 5]
    assert [record.seq for record in log.after(name, 5)] == [6]
    assert log.after(name, 6) == log.after(name, 99) == []
    assert [record.seq for record in log.before(name, 4, 2)] == [2, 3]
    assert [record.seq for record in log.newest(name, 2)] == [5, 6]


def test_what_a_rewind_left_out_is_not_shown(log: Log) -> None:
    name = written(log, said("one"), said("two"))
    assert [record.seq for record in log.shown_records(name)] == [1, 2, 3]
    journal = log.open(name)
    journal.write_now(SessionSettings(rewound=True), RewindEntry(2, 1), said("three"))
    assert [record.seq for record in log.shown_records(name)] == [1, 2, 5, 6]
    journal.write_now(RewindEntry(1, 0, conversation=False, files=True))
    journal.write_now(RewindEntry(1, 0, conversation=False, files=True, undo=True))
    journal.write_now(RewindEntry(2, 1, undo=True))
    assert [record.seq for record in log.shown_records(name)] == [1, 2, 3, 4, 9]
    assert [message.text for message in log.messages(name)] == ["one", "two"]


def test_shortenings_are_compactions_and_cleared_results(log: Log) -> None:
    name = written(log, said("one"))
    assert log.shortenings(name) == []
    journal = log.open(name)
    journal.write_now(SessionSettings(abridged=True), ResultsClearedEntry(1), said("two"))
    journal.write_now(CompactionEntry(Message.user("A summary."), 0))
    assert [record.seq for record in log.shortenings(name)] == [4, 6]


def test_an_id_that_is_taken_cannot_be_created_again(log: Log) -> None:
    journal = log.create(id="a" * 32)
    with pytest.raises(SessionHeldError, match="the session aaaaaaaa was just created; try again"):
        log.create(id="a" * 32)
    journal.write_now(said("still here"))
    child = log.open_child("b" * 32, SessionSettings(), journal, "call_1")
    assert [summary.id for summary in log.children(journal.id)] == [child.id]


def test_a_session_that_is_deleted_while_it_is_forked_leaves_no_copy(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    name = written(log, said("one"))
    fork = log._backend.fork

    def deleted_before(*of: object) -> None:
        log.delete(name)
        fork(*of)  # type: ignore[arg-type]

    monkeypatch.setattr(log._backend, "fork", deleted_before)
    with pytest.raises(UnknownSessionError, match="was just deleted"):
        log.fork(name)
    assert log.sessions() == []


async def test_settings_whose_write_fails_are_taken_back(log: Log) -> None:
    journal = log.create(SessionSettings(model="first"))
    await journal.write(SessionSettings(model="second")).finished()
    change(log, "UPDATE session SET fence = fence + 1")  # another process has taken it over
    writes = [journal.write(SessionSettings(model="third")), journal.write(SessionSettings(title="A title"))]
    assert (journal.settings.model, journal.settings.title) == ("third", "A title")
    for write in writes:
        with pytest.raises(SessionLostError):
            await write.finished()
    assert (journal.settings.model, journal.settings.title) == ("second", None)


def test_a_log_of_the_parent_process_cannot_be_used_or_closed(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = log.create()
    threads = [thread for thread in threading.enumerate() if thread.name == "outrider-log"]
    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: 0)
        with pytest.raises(LogError, match="create a new Log in the child process"):
            log.create()
        log._backend.close()  # in a child its thread is not there
    assert all(thread.is_alive() for thread in threads)
    journal.write_now(said("the parent goes on"))
