"""Search in sessions: an index that can be thrown away, and any text as a query."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import AttachmentBlock, Message, TextBlock, ToolResultBlock, ToolUseBlock
from outrider.conversation.passages import SearchQuery, best, fold, passages_of
from outrider.errors import DamagedLogError, LogError
from outrider.log import search
from outrider.log.entries import CallResult, Entry, MessageEntry
from outrider.log.log import Log
from outrider.log.search import SearchIndex
from outrider.log.sqlite import index_file
from outrider.log.sqlite.passages import SqlitePassageTables
from outrider.log.transfer import export, import_session
from tests.lengths import examples
from tests.log import change


def turn(number: int, said: str = "", result: str = "") -> list[Entry]:
    """A prompt, a call with its result, and the answer: four messages."""
    use = ToolUseBlock(f"c{number}", "Read", {"path": f"file-{number}.txt"})
    return [
        MessageEntry(Message.user(said or f"question {number}")),
        MessageEntry(Message.assistant(use)),
        CallResult(ToolResultBlock(use.id, (TextBlock(result or f"content {number}"),))),
        MessageEntry(Message.assistant(f"answer {number}")),
    ]


def written(log: Log, entries: Iterable[Entry]) -> str:
    """A session with these entries."""
    journal = log.create()
    journal.write_now(*entries)
    journal.close()
    return journal.id


def append(log: Log, name: str, *entries: Entry) -> None:
    journal = log.open(name)
    journal.write_now(*entries)
    journal.close()


def found(log: Log, query: str, session: str | None = None, limit: int = 20) -> list[str]:
    return [each.reference for each in log.search(query, session, limit=limit)]


@pytest.fixture
def log(place: str) -> Iterator[Log]:
    with Log(place) as log:
        yield log


def test_words_of_prompts_replies_calls_and_results_are_found_with_their_references(log: Log) -> None:
    name = written(log, [entry for number in range(30) for entry in turn(number)])
    append(log, name, *turn(30, "My favourite colour is Vermilion.", "The port of the main database is 5433."))
    append(log, name, *turn(31))
    assert found(log, "vermilion", name) == ["#121"]
    assert found(log, "PORT database", name) == ["c30"]
    assert found(log, "file-17.txt", name) == ["c17"]
    assert found(log, "answer", name, limit=2) == ["#128", "#124"]
    [hit] = log.search("port database", name)
    assert (hit.session, hit.kind, hit.tool, hit.message) == (name, "result", "Read", 123)
    assert hit.snippet == "The port of the main database is 5433."


def test_a_snippet_shows_the_surroundings_of_the_match(log: Log) -> None:
    name = written(log, [MessageEntry(Message.user(f"{'before ' * 500}the Needle\0 here{' after' * 500}"))])
    [hit] = log.search("needle", name)
    assert "the Needle here after" in hit.snippet
    assert hit.snippet.startswith("…")
    assert hit.snippet.endswith("…")
    assert len(hit.snippet) < 400


def test_without_a_passage_that_has_all_words_those_with_the_rarest_are_found(log: Log) -> None:
    name = written(log, [entry for number in range(10) for entry in turn(number)])
    append(log, name, *turn(10, "The question about the zebra"))
    assert found(log, "which question was about a zebra", name)[0] == "#41"
    assert found(log, '"about zebra"', name) == []


def test_whole_words_come_before_parts_of_words(log: Log) -> None:
    name = written(
        log, [MessageEntry(Message.user(f"The code of door {number} is secret.")) for number in range(1, 40)]
    )
    assert found(log, "code of door 1", name, limit=2) == ["#1", "#31"]
    [first, *_] = log.search('"door 1"', name)
    assert first.snippet == "The code of door 1 is secret."


def test_messages_and_calls_are_read_by_their_references(log: Log) -> None:
    name = written(log, [entry for number in range(10) for entry in turn(number)])
    messages = log.messages(name)
    for number, message in enumerate(messages, 1):
        assert log.recall(name, f"#{number}") == [message]
    assert log.recall(name, "c7") == [messages[29], messages[30]]
    for wrong in ("#0", "#41", "#", "#x", "#-1", "c70", "", "\0", "😀", "#" + "9" * 30):
        assert log.recall(name, wrong) == [], wrong
    assert {"c9", "#40"} <= set(log.references(name))


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
def test_numbers_stay_right_however_the_index_is_built(log: Log, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(search, "STEP_ROWS", rows)
    two = [ToolUseBlock("a", "Read", {}), ToolUseBlock("b", "Bash", {"command": "ls"})]
    name = written(log, [MessageEntry(Message.user("go")), MessageEntry(Message.assistant("I look", *two))])
    assert found(log, "look", name) == ["#2"]
    append(log, name, CallResult(ToolResultBlock("b", (TextBlock("beta"),))))
    assert [(hit.reference, hit.message, hit.tool) for hit in log.search("beta", name)] == [("b", 3, "Bash")]
    append(log, name, CallResult(ToolResultBlock("a", (TextBlock("alpha"),))), *turn(1))
    assert [log.recall(name, f"#{number}")[0].role for number in range(1, 8)] == [m.role for m in log.messages(name)]
    assert found(log, "question", name) == ["#4"]


def test_the_whole_of_a_shortened_result_is_searched(log: Log) -> None:
    journal = log.create()
    whole = journal.files.put(Attachment(b"head\n" + b"line\n" * 9000 + b"the secret ingredient is saffron\n"))
    use = ToolUseBlock("c1", "Bash", {})
    result = ToolResultBlock("c1", (TextBlock("head … tail"),), whole=whole)
    journal.write_now(MessageEntry(Message.user("go")), MessageEntry(Message.assistant(use)), CallResult(result))
    journal.close()
    [hit] = log.search("saffron", journal.id)
    assert hit.reference == "c1"
    assert hit.snippet.endswith("the secret ingredient is saffron")


HOSTILE = [
    *("", " ", "\0", "a\0b", '"', '""', '"a', "'", "';--", "*", "a*", "^a", "a:b", "(", ")", "-a", "+", "{x}", "\\"),
    *(
        "a",
        "ab",
        "é",
        "😀",
        "👩‍👩‍👧",
        "a OR b",
        "NOT",
        "AND",
        "NEAR(a b)",
        "x NEAR/2 y",
        "text:abc",
        "\ud800",
        "%",
        "_",
        "ß",
        "İ",
    ),
    *("a " * 5000, "a" * 100_000, '"a b c" d', "\n\t", "trigram", "SELECT * FROM passage", "ﷺ", "\x01\x7f"),
]


@pytest.mark.sampled(15)
@pytest.mark.parametrize("query", HOSTILE, ids=range(len(HOSTILE)))
def test_any_text_is_a_query(log: Log, query: str) -> None:
    name = written(log, [*turn(1, 'a "quoted" OR b NEAR 😀 ab é'), MessageEntry(Message.user("text:abc % _ (x)"))])
    assert isinstance(log.search(query, name), list)
    assert isinstance(log.search(query), list)


TEXTS = st.text(st.sampled_from('abAB é"😀İßΣς .*-\0\ud800'), max_size=12)


@given(texts=st.lists(TEXTS, max_size=6), queries=st.lists(TEXTS, min_size=1, max_size=4))
@settings(max_examples=examples(60))
def test_all_ways_of_searching_find_the_same(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], queries: list[str]
) -> None:
    messages = [message for text in texts for message in (Message.user(f"x{text}"), Message.assistant(f"y{text}"))]
    log = Log(tmp_path_factory.mktemp("same"))
    name = written(log, map(MessageEntry, messages))
    tables = SqlitePassageTables(log.folder / "plain.db", trigrams=False)
    plain = SearchIndex(log._backend, log._files, tables)
    passages = list(passages_of(log.messages(name)))
    for text in queries:
        query = SearchQuery(text)
        scanned = plain.search(text, [log._find(name).indexable], 5, lambda done, total: None)
        assert log.search(text, name, limit=5) == scanned
        matches = [{n for n, each in enumerate(passages) if word in fold(each.text)} for word in query.words]
        found = best(matches, len(passages), 5, lambda n: query.has_whole(fold(passages[n].text)))  # noqa: B023
        expected = [passages[number].reference for number in found]
        assert [hit.reference for hit in scanned] == expected


@pytest.mark.folder_only
def test_a_write_never_touches_the_index_and_only_the_owner_reads_it(log: Log) -> None:
    name = written(log, turn(1))
    index = log.folder / "search.db"
    assert not index.exists()
    assert found(log, "answer", name)
    assert stat.S_IMODE(index.stat().st_mode) == 0o600
    before = index.read_bytes()
    append(log, name, *turn(2))
    assert index.read_bytes() == before
    assert found(log, "answer", name) == ["#8", "#4"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("damage", ["garbage", "torn", "empty", "older", "missing", "table", "foreign"])
@pytest.mark.folder_only
def test_a_damaged_missing_or_old_index_is_built_again(log: Log, damage: str) -> None:
    name = written(log, [entry for number in range(300) for entry in turn(number)])
    assert found(log, "content 77", name)
    index = log.folder / "search.db"
    data = index.read_bytes()
    match damage:
        case "garbage":
            index.write_bytes(b"no database" * 1000)
        case "torn":
            index.write_bytes(data[: len(data) // 2])
        case "empty":
            index.write_bytes(b"")
        case "missing":
            index.unlink()
        case _:
            with sqlite3.connect(index) as connection:
                connection.execute(
                    {
                        "older": "PRAGMA user_version=1",
                        "table": "DROP TABLE trigram",
                        "foreign": "PRAGMA application_id=7",
                    }[damage]
                )
            connection.close()
    assert found(log, "content 299", name) == ["c299"]
    assert found(log, "content 278", name) == ["c278"]
    with sqlite3.connect(index) as connection:
        assert connection.execute("SELECT id, messages FROM indexed").fetchall() == [(name, 1200)]
    connection.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
@pytest.mark.folder_only
def test_a_folder_that_cannot_be_written_can_be_searched(log: Log) -> None:
    name = written(log, turn(1))
    log.close()
    log.folder.chmod(0o500)
    try:
        assert found(Log(log.location), "answer", name) == ["#4"]
        assert not (log.folder / "search.db").exists()
    finally:
        log.folder.chmod(0o700)


@pytest.mark.folder_only
def test_an_index_that_cannot_be_a_file_is_kept_in_memory(log: Log) -> None:
    name = written(log, turn(1))
    (log.folder / "search.db").mkdir()
    assert found(log, "answer", name) == ["#4"]


@pytest.mark.folder_only
def test_deleted_sessions_are_not_found_and_leave_no_words_behind(log: Log) -> None:
    kept = written(log, turn(1, "the kept zebra"))
    doomed = written(log, turn(1, "the doomed zebra xylophone"))
    assert {hit.session for hit in log.search("zebra")} == {kept, doomed}
    log.delete(doomed)
    assert b"xylophone" not in (log.folder / "search.db").read_bytes()
    assert {hit.session for hit in log.search("zebra")} == {kept}


@pytest.mark.folder_only
def test_forks_imports_and_other_logs_are_searched_as_they_are(log: Log, tmp_path: Path) -> None:
    name = written(log, [*turn(1, "the first zebra"), *turn(2, "the second zebra")])
    assert found(log, "zebra", name) == ["#5", "#1"]
    fork = log.fork(name, at=5)
    assert found(log, "zebra", fork) == ["#1"]
    exported = list(export(log, name))
    log.delete(name)
    again = import_session(log, iter(exported)).id
    assert again == name
    assert found(log, "zebra", name) == ["#5", "#1"]
    other = Log(tmp_path / "other")
    written(other, turn(1))
    replaced = written(other, turn(1, "the third zebra"))
    assert found(other, "zebra") == ["#1"]
    (other.folder / "search.db").replace(log.folder / "search.db")  # as after a recovery that numbers sessions anew
    assert {hit.session for hit in log.search("zebra")} == {fork, name}
    assert replaced not in {fork, name}
    assert found(log, '"third zebra"', fork) == []
    assert found(log, '"first zebra"', fork) == ["#1"]


@pytest.mark.parametrize("when", ["between steps", "in a step", "at the end"])
def test_a_session_that_is_deleted_while_it_is_searched_is_not_found(
    log: Log, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    monkeypatch.setattr(search, "STEP_ROWS", 2)
    name = written(log, [*turn(1, "the first zebra"), *turn(2, "the second zebra")])

    def progress(done: int, total: int) -> None:
        if when == "between steps" and done < total:
            change(log, "DELETE FROM session")
        if when == "at the end" and done == total:
            change(log, "DELETE FROM event")

    def searchable(*of: Any) -> str:
        if when == "in a step":
            change(log, "DELETE FROM session")
        return text_of(*of)

    text_of = SearchIndex._searchable
    monkeypatch.setattr(SearchIndex, "_searchable", searchable)
    assert log.search("second", name, progress=progress) == []


def test_a_damaged_entry_is_reported_by_a_search_that_finds_it(log: Log) -> None:
    name = written(log, [*turn(1, "the first zebra"), *turn(2, "the second zebra")])
    assert found(log, "zebra", name) == ["#5", "#1"]
    change(log, "UPDATE event SET body = '{}' WHERE seq = 2")
    assert found(log, "second", name) == ["#5"]
    with pytest.raises(DamagedLogError, match="entry 2"):
        log.search("first", name)


def test_steps_are_as_small_as_their_bytes_ask(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "STEP_BYTES", 50)
    names = [written(log, turn(number)) for number in range(3)]
    steps: list[int] = []
    hits = log.search("answer", progress=lambda done, total: steps.append(done))
    assert {hit.session for hit in hits} == set(names)
    assert max(b - a for a, b in pairwise([0, *steps])) == 1


@pytest.mark.folder_only
def test_an_index_that_another_process_uses_is_waited_for_and_not_built_again(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = written(log, turn(1))
    log.delete(written(log, turn(2)))  # of which there is nothing to forget
    assert found(log, "answer", name)
    index = log.folder / "search.db"
    before = index.read_bytes()
    doomed = written(log, turn(3))
    log.delete(doomed)
    is_current, looks = index_file.IndexFile._is_current, 0

    def built_meanwhile(*of: Any) -> bool:
        nonlocal looks
        looks += 1
        return looks > 1 and is_current(*of)

    with monkeypatch.context() as late:
        late.setattr(index_file.IndexFile, "_is_current", built_meanwhile)
        assert found(log, "answer", name)
    assert index.read_bytes() == before
    monkeypatch.setattr(index_file, "BUSY_SECONDS", 0.0)
    with closing(sqlite3.connect(index)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LogError, match=r"search.db is in use .*; try again"):
            log.search("answer", name)


def test_a_long_session_is_indexed_in_steps_and_an_interruption_loses_none(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "STEP_ROWS", 100)
    name = written(log, [entry for number in range(200) for entry in turn(number)])
    seen: list[tuple[int, int]] = []

    def interrupt(done: int, total: int) -> None:
        seen.append((done, total))
        if len(seen) == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        log.search("answer", name, progress=interrupt)
    assert seen == [(100, 801), (200, 801), (300, 801)]
    log.search("answer", name, progress=lambda done, total: seen.append((done, total)))
    assert seen[3] == (100, 501)
    assert seen[-1] == (501, 501)


def test_an_index_that_is_emptied_while_it_is_built_is_built_from_the_start(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "STEP_ROWS", 10)
    name = written(log, [entry for number in range(10) for entry in turn(number)])
    steps: list[int] = []

    def empty_once(done: int, total: int) -> None:
        steps.append(done)
        if len(steps) == 2:
            log._index._tables.open(lambda index: index.clear())  # as another process does

    list(log.search("answer", name, progress=empty_once))
    assert len(found(log, "question", name, limit=100)) == 10
    assert found(log, "question 0", name)[0] == "#1"


def test_many_search_at_the_same_time(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "STEP_ROWS", 50)
    name = written(log, [entry for number in range(200) for entry in turn(number)])
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda number: found(Log(log.location), f"content {number}", name, 1), range(190, 198)))
    assert answers == [[f"c{number}"] for number in range(190, 198)]


def test_files_are_found_by_their_names(log: Log) -> None:
    picture = AttachmentBlock("0" * 64, "image/png", 3, "floor-plan.png", "the ground floor")
    name = written(log, [MessageEntry(Message.user("Look:", picture))])
    assert found(log, "floor-plan", name) == found(log, "ground", name) == ["#1"]
