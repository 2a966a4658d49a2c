"""The usage index: sums and turns that agree with the log, and an index that can be thrown away."""

from __future__ import annotations

import sqlite3
import stat
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from outrider.conversation.messages import Message
from outrider.conversation.usage import Usage
from outrider.log import usage_index
from outrider.log.entries import AttemptFailed, CompactionEntry, Entry, MessageEntry, SessionSettings, TitleEntry
from outrider.log.log import Log
from outrider.log.rows import encode
from outrider.log.usage_tables import QUARTER_SECONDS, Dimension, UsageSums, context_used
from tests.log import change

NOON = 1_700_000_100.0


@pytest.fixture
def log(place: str) -> Iterator[Log]:
    with Log(place) as log:
        yield log


def reply(tokens: int, model: str = "fast", first_token: float | None = None) -> Entry:
    usage = Usage(tokens, 1, tokens // 2, cost=tokens / 10)
    return MessageEntry(Message.assistant("Yes."), model=model, usage=usage, first_token=first_token)


def imported(log: Log, folder: str, entries: dict[float, Entry]) -> str:
    """A session with these entries, by their times."""
    settings = SessionSettings(model="fast", cwd=folder)
    bodies = [(2, NOON, *encode(settings))]
    bodies += [(seq, time, *encode(entry)) for seq, (time, entry) in enumerate(entries.items(), 3)]
    return log.add("", bodies, ())


def written(log: Log, *entries: Entry, name: str = "") -> str:
    """A session with these entries; a known one grows."""
    journal = log.open(name) if name else log.create()
    journal.write_now(*entries)
    journal.close()
    return journal.id


def sums(log: Log, dimension: Dimension, since: float = 0.0) -> dict[str | int, UsageSums]:
    report = log.used(dimension, since=since)
    assert report.progress.is_complete
    return dict(report.sums)


def requests(log: Log) -> int:
    return sum(each.requests for each in sums(log, "model").values())


def test_sums_by_time_model_and_folder_agree_with_the_summaries(log: Log) -> None:
    imported(log, "/a", {NOON: reply(100), NOON + 1: reply(50, first_token=0.5), NOON + 3_600: reply(30, "slow")})
    failed = AttemptFailed("broke off", 1, usage=Usage(7, cost=0.7))
    imported(log, "/b", {NOON: failed, NOON + 1: TitleEntry("A title", Usage(3, cost=0.3), "tiny")})
    quarters = sums(log, "quarter")
    first = int(NOON // QUARTER_SECONDS)
    assert {quarter: each.input_tokens for quarter, each in quarters.items()} == {first: 160, first + 4: 30}
    models = sums(log, "model")
    assert {name: (each.requests, each.input_tokens) for name, each in models.items()} == {
        "fast": (3, 157),  # a failed attempt has no model of its own
        "slow": (1, 30),
        "tiny": (1, 3),
    }
    assert (models["fast"].first_token, models["fast"].measured) == (0.5, 1)
    folders = sums(log, "folder")
    assert {name: each.input_tokens for name, each in folders.items()} == {"/a": 180, "/b": 10}
    assert sum(each.cost for each in folders.values()) == pytest.approx(19.0)
    assert {name: each.input_tokens for name, each in sums(log, "model", NOON + 1_000).items()} == {"slow": 30}


def test_requests_without_a_known_price_are_counted(log: Log) -> None:
    def asked(cost: float | None, model: str) -> Entry:
        return MessageEntry(Message.assistant("Yes."), model=model, usage=Usage(10, 1, cost=cost))

    both = {NOON: asked(0.5, "priced"), NOON + 1: asked(None, "local"), NOON + 2: asked(None, "local")}
    imported(log, "/a", both | {NOON + 3: TitleEntry("A title", Usage(3, 1), "tiny")})
    imported(log, "/b", {NOON: asked(0.0, "free"), NOON + 3_600: MessageEntry(Message.assistant("Yes."), model="mute")})
    found = sums(log, "model")
    assert {name: (each.unpriced, each.known_cost) for name, each in found.items()} == {
        "priced": (0, 0.5),
        "local": (2, None),
        "tiny": (1, None),
        "free": (0, 0.0),
    }
    assert {name: (each.unpriced, each.known_cost) for name, each in sums(log, "folder").items()} == {
        "/a": (3, 0.5),
        "/b": (0, 0.0),
    }


def test_new_entries_are_added_once_and_a_moved_session_takes_its_sums_along(log: Log) -> None:
    name = written(log, SessionSettings(model="fast", cwd="/old"), reply(1))
    assert requests(log) == 1
    written(log, reply(2), reply(3), name=name)
    assert requests(log) == requests(log) == 3
    assert requests(Log(log.url or log.folder)) == 3
    written(log, SessionSettings(cwd="/new"), name=name)
    assert list(sums(log, "folder")) == ["/new"]


def test_turns_are_replies_and_compactions(log: Log) -> None:
    compaction = CompactionEntry(Message.user("A summary."), 0, tokens_after=20, usage=Usage(9, 1, cost=0.5))
    name = written(log, reply(100), AttemptFailed("broke off", 1, usage=Usage(5)), compaction, reply(30))
    turns = [(turn.tokens, turn.is_compaction, turn.cost) for turn in log.turns(name)]
    assert turns == [(101, False, 10.0), (20, True, 0.5), (31, False, 3.0)]
    written(log, reply(40), name=name)
    assert [turn.seq for turn in log.turns(name)] == [2, 4, 5, 6]


def test_deleted_sessions_do_not_count(log: Log) -> None:
    kept, doomed = written(log, reply(1)), written(log, reply(2, "doomed-model"))
    assert requests(log) == 2
    log.delete(doomed)
    assert list(sums(log, "model")) == ["fast"]
    assert len(log.turns(kept)) == 1
    if not log.url:
        assert b"doomed-model" not in (log.folder / "usage.db").read_bytes()


def test_a_long_session_is_indexed_in_steps_and_a_short_time_does_a_part(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage_index, "STEP_ROWS", 10)
    name = written(log, *(reply(1) for _ in range(35)))
    for _ in range(15):
        written(log, reply(1))
    nothing = log.used("model", seconds=0.0)
    assert not nothing.progress.is_complete
    assert nothing.sums == []
    checksums = log._backend.checksums

    def slow_checksums(places: Mapping[int, int]) -> dict[int, tuple[str, int]]:
        time.sleep(0.02)
        return checksums(places)

    monkeypatch.setattr(log._backend, "checksums", slow_checksums)  # looking takes longer than the time that is given
    reports = 0
    while not log.used("model", seconds=0.01).progress.is_complete:
        reports += 1
    assert 1 <= reports <= 50
    assert requests(log) == 50
    assert len(log.turns(name)) == 35


def test_many_add_up_at_the_same_time(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_index, "STEP_ROWS", 10)
    for _ in range(5):
        written(log, *(reply(1) for _ in range(25)))
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: requests(Log(log.url or log.folder)), range(6))) == [125] * 6


@pytest.mark.parametrize("damage", ["garbage", "torn", "empty", "missing", "table", "foreign"])
@pytest.mark.folder_only
def test_a_damaged_missing_or_old_index_is_built_again(log: Log, damage: str) -> None:
    name = written(log, *(reply(1) for _ in range(300)))
    assert requests(log) == 300
    index = log.folder / "usage.db"
    assert stat.S_IMODE(index.stat().st_mode) == 0o600
    match damage:
        case "garbage":
            index.write_bytes(b"no database" * 1000)
        case "torn":
            index.write_bytes(index.read_bytes()[:5000])
        case "empty":
            index.write_bytes(b"")
        case "missing":
            index.unlink()
        case _:
            statement = "DROP TABLE turn" if damage == "table" else "PRAGMA application_id=7"
            with sqlite3.connect(index) as connection:
                connection.execute(statement)
            connection.close()
    assert len(log.turns(name)) == 300
    assert requests(log) == 300


@pytest.mark.folder_only
def test_an_index_that_cannot_be_a_file_is_kept_in_memory(log: Log) -> None:
    written(log, reply(1), reply(2))
    (log.folder / "usage.db").mkdir()
    assert requests(log) == 2
    assert [each.requests for _, each in log.used("model", seconds=0.0).sums] == [2]


@pytest.mark.folder_only
def test_the_index_of_another_log_is_not_believed(log: Log, tmp_path: Path) -> None:
    other = Log(tmp_path / "other")
    for _ in range(3):
        written(other, reply(7), reply(8))
    written(log, reply(1))
    assert requests(other) == 6
    (other.folder / "usage.db").replace(log.folder / "usage.db")
    assert requests(log) == 1


def test_damaged_entries_are_left_out(log: Log) -> None:
    name = written(log, *(reply(tokens) for tokens in range(5)))
    log.close()
    change(log, "UPDATE event SET body = (SELECT body FROM event WHERE seq = 2) WHERE seq IN (3, 6)")
    assert requests(log) == 3
    assert requests(Log(log.location)) == len(log.turns(name)) == 3


def test_a_log_without_sessions_has_used_nothing(log: Log) -> None:
    report = log.used("model")
    assert (report.progress.is_complete, report.sums) == (True, [])


def test_a_session_that_is_deleted_while_it_is_added_up_does_not_count(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(log, reply(1))
    doomed = written(log, reply(2), reply(3))
    listing = "numbered" if "://" in log.location else "indexable"  # where it is asked what is new
    listed = getattr(log._backend, listing)

    def deleted_then(*of: Any) -> Any:
        found = listed(*of)
        monkeypatch.undo()
        Log(log.location).delete(doomed)
        return found

    monkeypatch.setattr(log._backend, listing, deleted_then)
    assert requests(log) == 1


def test_who_has_no_time_to_wait_for_another_thread_gets_what_there_is(log: Log) -> None:
    written(log, reply(1))
    with log._usage._updating:
        report = log.used("model", seconds=0.0)
    assert (report.progress.is_complete, report.sums) == (False, [])


def test_the_context_is_that_of_the_newest_reply_or_compaction(log: Log) -> None:
    name = written(log, MessageEntry(Message.user("Hello.")))
    assert context_used(log.newest(name)) is None
    written(log, reply(100), MessageEntry(Message.user("More.")), name=name)
    assert context_used(log.newest(name)) == 101
    written(log, CompactionEntry(Message.user("A summary."), 0, tokens_after=20), name=name)
    assert context_used(log.newest(name)) == 20
    assert requests(log) == 1  # messages of the user have used nothing


def test_sums_are_merged_field_by_field() -> None:
    sums = UsageSums(1, 2, 3, 4, 0.5, 0.25, 1)
    sums.merge(UsageSums(10, 20, 30, 40, 5.0, 2.5, 10))
    assert sums == UsageSums(11, 22, 33, 44, 5.5, 2.75, 11)


def test_numbers_that_no_model_reports_do_not_break_the_sums(log: Log) -> None:
    """An imported session may name any number of tokens; a database adds up to 2**63 - 1."""
    huge = MessageEntry(Message.assistant("Yes."), model="fast", usage=Usage(2**62, 2**62, cost=1e308))
    names = [imported(log, "/a", {NOON: huge}) for _ in range(3)]
    imported(log, "/a", {NOON: reply(10, "slow")})
    found = sums(log, "model")
    assert (found["fast"].requests, found["slow"].input_tokens) == (3, 10)
    assert found["fast"].input_tokens > 10**9
    assert [turn.tokens > 10**9 for turn in log.turns(names[0])] == [True]
