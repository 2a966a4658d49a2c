"""The chain of a session's entries: who has no key cannot change one unnoticed, nor remove, insert or move one."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider import Agent, Log, Session
from outrider.conversation.messages import Message
from outrider.errors import LogError
from outrider.log.entries import MessageEntry, SessionSettings
from outrider.log.rows import Row, link_of, row
from outrider.log.sqlite import database
from outrider.log.sqlite.recovery import recover
from outrider.log.transfer import export, import_session
from outrider.testing import ScriptedModel
from outrider.types import Verification
from tests.lengths import examples
from tests.log import Process, change, entry, is_postgres, look
from tests.log.test_golden_logs import GOLDEN

ROWS = "SELECT session, seq, time, kind, body, checksum FROM event ORDER BY session, seq"
COUNT = 9


@pytest.fixture
def log(place: str) -> Iterator[Log]:
    with Log(place) as log:
        yield log


def written(log: Log, count: int = COUNT) -> str:
    """Write a session with this many entries. Return its id."""
    journal = log.create(SessionSettings(model="demo"))
    for number in range(count - 2):
        journal.write_now(entry(f"message {number}"))
    journal.close()
    return journal.id


def rows_of(log: Log) -> list[Row]:
    found: list[Any] = look(log, ROWS)
    return found


def replace_rows(log: Log, rows: list[Row], last: int | None = None) -> None:
    """Put other rows into the place of all, as someone does who can write to the database."""
    change(log, "DELETE FROM event")
    insert_rows(log, rows)
    last = rows[-1][1] if last is None else last
    change(log, f"UPDATE session SET last = {last}, entries = {len(rows)}")


def insert_rows(log: Log, rows: list[Row]) -> None:
    numbers = count(1)
    marks = [", ".join(f"${next(numbers)}" if is_postgres(log) else "?" for _ in each) for each in rows]
    places = ", ".join(f"({each})" for each in marks)
    statement = f"INSERT INTO event (session, seq, time, kind, body, checksum) VALUES {places}"
    change(log, statement, *(value for each in rows for value in each))


def forged(each: Row, **changes: Any) -> Row:
    """Return a row with other values and a right checksum, but with the link that it had."""
    names = ("session", "seq", "time", "kind", "body")
    values: list[Any] = [changes.get(name, value) for name, value in zip(names, each, strict=False)]
    return row(*values, link=link_of(each))


def unlinked(each: Row) -> Row:
    return row(*each[:5])


def changed_text(rows: list[Row], at: int) -> list[Row]:
    return [forged(each, body=each[4] + b" ") if each[1] == at else each for each in rows]


def changed_time(rows: list[Row], at: int) -> list[Row]:
    return [forged(each, time=each[2] + 1) if each[1] == at else each for each in rows]


def changed_kind(rows: list[Row], at: int) -> list[Row]:
    return [forged(each, kind="decided") if each[1] == at else each for each in rows]


def changed_link(rows: list[Row], at: int) -> list[Row]:
    return [(*each[:5], each[5] ^ 1 << 40) if each[1] == at else each for each in rows]


def changed_checksum(rows: list[Row], at: int) -> list[Row]:
    return [(*each[:5], each[5] ^ 1) if each[1] == at else each for each in rows]


def without_link(rows: list[Row], at: int) -> list[Row]:
    return [unlinked(each) if each[1] == at else each for each in rows]


def removed(rows: list[Row], at: int) -> list[Row]:
    return [each for each in rows if each[1] != at]


def removed_and_renumbered(rows: list[Row], at: int) -> list[Row]:
    return [forged(each, seq=each[1] - (each[1] > at)) for each in rows if each[1] != at]


def inserted(rows: list[Row], at: int) -> list[Row]:
    later = [forged(each, seq=each[1] + 1) for each in rows[at - 1 :]]
    return [*rows[: at - 1], rows[at - 1], *later]


def swapped(rows: list[Row], at: int) -> list[Row]:
    one, other = rows[at - 1], rows[at % len(rows)]
    moved = {one[1]: forged(other, seq=one[1]), other[1]: forged(one, seq=other[1])}
    return [moved.get(each[1], each) for each in rows]


FORGERIES = [
    *(changed_text, changed_time, changed_kind, changed_link, changed_checksum, without_link),
    *(removed, removed_and_renumbered, inserted, swapped),
]


def first_difference(before: list[Row], after: list[Row]) -> int:
    return next(
        (one[1] for one, other in zip(before, after, strict=False) if one != other), min(len(before), len(after)) + 1
    )


def test_what_was_written_is_proved(log: Log) -> None:
    found = log.verify(written(log))
    assert found == Verification(found.session, entries=COUNT, verified=COUNT, since=1)
    assert found.is_proved


@pytest.mark.sampled(8)
@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda forgery: forgery.__name__)
def test_the_first_changed_entry_is_named(log: Log, forgery: Callable[[list[Row], int], list[Row]]) -> None:
    session = written(log)
    rows = rows_of(log)
    for at in range(1, COUNT + 1):
        after = forgery(rows, at)
        replace_rows(log, after)
        found = log.verify(session)
        assert not found.is_proved
        assert found.changed == first_difference(rows, after), f"{forgery.__name__} at {at}"
    replace_rows(log, rows)
    assert log.verify(session).is_proved


def test_the_kind_and_the_time_of_a_changed_entry_are_named(log: Log) -> None:
    session = written(log)
    rows = rows_of(log)
    replace_rows(log, changed_text(rows, 4))
    found = log.verify(session)
    assert (found.changed, found.kind, found.time, found.verified) == (4, "message", rows[3][2], 3)
    assert found.problem == "entry 4 was changed"


@pytest.mark.parametrize("kept", range(1, COUNT))
def test_an_end_that_was_cut_off_is_missed(log: Log, kept: int) -> None:
    session = written(log)
    replace_rows(log, rows_of(log)[:kept])
    found = log.verify(session)
    assert (found.changed, found.verified) == (kept + 1, kept)
    assert "cut off" in found.problem


def test_an_entry_behind_the_last_one_is_named(log: Log) -> None:
    session = written(log)
    rows = rows_of(log)
    replace_rows(log, [*rows, forged(rows[-1], seq=COUNT + 1)], last=COUNT)
    assert (log.verify(session).changed, log.verify(session).problem) == (COUNT + 1, f"entry {COUNT + 1} was inserted")


@pytest.mark.parametrize("seq", [0, -7])
def test_an_entry_before_the_first_one_is_named(log: Log, seq: int) -> None:
    session = written(log)
    rows = rows_of(log)
    replace_rows(log, [*rows, forged(rows[3], seq=seq)], last=COUNT)
    assert log.verify(session).changed == 1


@pytest.mark.parametrize("head", ["''", "chain", "other"])
def test_a_chain_cannot_be_taken_off(log: Log, head: str) -> None:
    """Neither as a whole, as in a log of an older version, nor up to some entry."""
    session = written(log)
    rows = rows_of(log)
    if head != "chain":
        zero = "decode('', 'hex')" if is_postgres(log) else "x''"
        other = "decode('00000000', 'hex')" if is_postgres(log) else "x'00000000'"
        change(log, f"UPDATE session SET chain = {zero if head == chr(39) * 2 else other}")
    for upto in range(1, COUNT + 1):
        replace_rows(log, [unlinked(each) if each[1] <= upto else each for each in rows])
        assert log.verify(session).changed == 1, f"up to {upto}"


def test_without_its_signature_a_session_without_links_is_not_proved(log: Log) -> None:
    session = written(log)
    replace_rows(log, [unlinked(each) for each in rows_of(log)])
    change(log, "UPDATE session SET settings = '{}', chain = " + ("''" if is_postgres(log) else "x''"))
    assert log.verify(session).problem.startswith("no entry is chained")
    log.rename(session, "Continued")
    found = log.verify(session)
    assert (found.is_proved, found.verified, found.since) == (True, 1, COUNT + 1)
    assert f"entries 1 to {COUNT}" in found.notes[0]


def test_rows_of_another_session_do_not_count(log: Log) -> None:
    one = written(log)
    [[number]] = look(log, "SELECT number FROM session")
    change(log, "UPDATE session SET title = 'x'")
    written(log)
    rows = rows_of(log)
    theirs = [each for each in rows if each[0] != number]
    mine = [each for each in rows if each[0] == number]
    mine[4] = forged(theirs[4], session=number)
    change(log, f"DELETE FROM event WHERE session = {number}")
    insert_rows(log, mine)
    assert log.verify(one).changed == 5


def test_a_session_cannot_take_the_place_of_another(log: Log) -> None:
    one, other = written(log), written(log)
    for before, after in ((one, "x"), (other, one), ("x", other)):
        change(log, f"UPDATE session SET id = '{after}' WHERE id = '{before}'")
    assert [log.verify(each).changed for each in (one, other)] == [1, 1]


# Those who write


WRITER = """
log = Log(arguments[0])
journal = log.open(arguments[1])
for number in range(3):
    journal.write_now(MessageEntry(Message.user(f"{arguments[2]} {number}")))
say("written")
hear()
"""


def test_a_session_that_several_processes_write_has_one_chain(log: Log, place: str) -> None:
    session = written(log)
    for name in ("one", "two", "three"):
        with Process(WRITER, place, session, name) as process:
            assert process.hear() == "written"
            process.kill()
    log.open(session).close()
    found = log.verify(session)
    assert (found.is_proved, found.verified) == (True, COUNT + 9)
    rows = rows_of(log)
    replace_rows(log, changed_text(rows, COUNT + 4))
    assert log.verify(session).changed == COUNT + 4


async def test_it_is_proved_while_it_is_written(log: Log) -> None:
    session = written(log)
    journal = log.open(session)
    writes = [journal.write(entry(number)) for number in range(50)]
    while not writes[-1].done:
        assert log.verify(session).is_proved
        await writes[-1].finished() if len(rows_of(log)) > COUNT else None
    assert log.verify(session).verified == COUNT + 50


async def test_sub_agents_and_their_parent_are_chained(log: Log) -> None:
    parent = log.create(SessionSettings(model="demo"))
    child = log.open_child("a" * 32, SessionSettings(model="demo"), parent, "call_1")
    child.write_now(entry("hello"))
    await parent.write(entry("go on")).finished()
    assert log.verify(parent.id).verified == 4
    assert log.verify(child.id).verified == 3


def test_the_session_of_a_sub_agent_cannot_be_hidden(log: Log) -> None:
    parent = log.create(SessionSettings(model="demo"))
    log.open_child("a" * 32, SessionSettings(model="demo"), parent, "call_1").close()
    parent.close()
    assert log.verify(parent.id).is_proved
    assert log.verify(log.fork(parent.id)).is_proved, "those of the original are not those of a copy"
    change(log, f"UPDATE session SET parent = '' WHERE id = '{'a' * 32}'")
    assert log.verify(parent.id).problem == "the session aaaaaaaa of its sub-agent is missing"


def test_another_key_proves_nothing_and_begins_a_chain_of_its_own(
    log: Log, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    session = written(log)
    monkeypatch.setenv("OUTRIDER_HOME", str(tmp_path / "other"))
    with Log(log.location) as other:
        assert "another key" in other.verify(session).problem
        assert not other.verify(session).changed
        other.rename(session, "Mine")
        assert other.verify(session).since == COUNT + 1
        with Session.open(other, session, Agent(ScriptedModel(["fine"])), cwd=tmp_path):
            pass
        found = other.verify(session)
        assert (found.is_proved, found.since, found.verified) == (True, COUNT + 1, found.entries - COUNT)
        assert "another machine" in found.notes[0]
        rows = rows_of(log)
        replace_rows(other, changed_text(rows, COUNT + 2))
        assert other.verify(session).changed == COUNT + 2


# Copies


def test_a_copy_is_chained_anew(log: Log) -> None:
    session = written(log)
    copy = log.fork(session, 5)
    found = log.verify(copy)
    assert (found.is_proved, found.verified) == (True, 5)
    assert found.notes == (f"entries 2 to 5 were copied from {session[:8]}: proved since then",)
    journal = log.open(copy)
    journal.write_now(entry("more"))
    journal.close()
    assert log.verify(copy).verified == 6
    [[number]] = look(log, f"SELECT number FROM session WHERE id = '{copy}'")
    [third] = [each for each in rows_of(log) if each[:2] == (number, 3)]
    new = forged(third, body=third[4] + b" ")
    one, two = ("$1", "$2") if is_postgres(log) else ("?", "?")
    values = f"body = {one}, checksum = {two}"
    change(log, f"UPDATE event SET {values} WHERE session = {number} AND seq = 3", new[4], new[5])
    assert log.verify(copy).changed == 3
    assert log.verify(session).is_proved


def test_an_import_is_chained_from_the_first_own_entry(log: Log, tmp_path: Path) -> None:
    imported = import_session(log, [*export(log, written(log))]).id
    assert log.verify(imported).problem.startswith("no entry is chained")
    with Session.open(log, imported, Agent(ScriptedModel(["fine"])), cwd=tmp_path):
        pass
    found = log.verify(imported)
    assert found.is_proved
    assert found.since > COUNT - 1
    assert "imported" in found.notes[0]


def test_a_fork_of_an_import_is_not_proved_by_the_copy(log: Log) -> None:
    imported = import_session(log, [*export(log, written(log))]).id
    assert not log.verify(log.fork(imported)).is_proved


# Older logs


def golden(path: Path, folder: Path) -> Log:
    with closing(sqlite3.connect(folder / "log.db")) as connection:
        connection.executescript(path.read_text())
    return Log(folder)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
@pytest.mark.folder_only
async def test_an_older_log_is_chained_from_the_first_new_entry(path: Path, tmp_path: Path) -> None:
    with golden(path, tmp_path) as log:
        session = next(each.id for each in log.sessions() if each.title == "The attic")
        last = log.session(session).last
        assert log.verify(session).problem.startswith("no entry is chained")
        async with Session.open(log, session, Agent(ScriptedModel(["Dust."]))) as continued:
            await continued.run("Really?")
        found = log.verify(session)
        assert (found.is_proved, found.since, found.verified) == (True, last + 1, found.entries - last)
        assert f"entries 1 to {last}" in found.notes[0]
        [[number]] = look(log, f"SELECT number FROM session WHERE id = '{session}'")
        change(log, f"DELETE FROM event WHERE session = {number} AND seq = {last + 2}")
        assert log.verify(session).changed == last + 2


@pytest.mark.folder_only
def test_an_older_log_that_cannot_be_upgraded_is_not_chained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_is_writable", lambda path: False)  # root may write everywhere
    with golden(GOLDEN[0], tmp_path) as log:
        for summary in log.sessions():
            assert log.verify(summary.id).problem.startswith("no entry is chained")


# Damage


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A log in one file, without a write-ahead log."""
    folder = tmp_path_factory.mktemp("whole")
    with Log(folder) as log:
        session = written(log, 30)
        journal = log.open(session)
        journal.write_now(MessageEntry(Message.user("long " * 3000)))
        journal.close()
    with closing(sqlite3.connect(folder / "log.db")) as connection:
        connection.execute("PRAGMA journal_mode=delete")
    return folder, session


def flipped(whole: tuple[Path, str], folder: Path, place: int, bit: int = 0) -> tuple[str, Verification | None]:
    """Verify a copy of the file with one flipped bit. Return the error, or what was found."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    content = bytearray((whole[0] / "log.db").read_bytes())
    content[place] ^= 1 << bit
    (folder / "log.db").write_bytes(content)
    try:
        with Log(folder) as log:
            return "", log.verify(whole[1])
    except LogError as error:
        return str(error), None


@pytest.mark.folder_only
def test_a_flipped_byte_in_a_text_is_named(whole: tuple[Path, str], tmp_path: Path) -> None:
    content = (whole[0] / "log.db").read_bytes()
    for number in range(28):
        place = content.index(b'"message %d"' % number) + 1
        error, found = flipped(whole, tmp_path / "copy", place)
        assert found, error
        assert (found.changed, found.kind) == (number + 3, "message")


@pytest.mark.folder_only
@settings(max_examples=examples(60))
@given(seed=st.integers(0, 2**32))
def test_a_flipped_bit_anywhere_is_no_proof_of_other_entries(
    whole: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    """What is proved is what was written."""
    chosen = random.Random(seed)
    folder = tmp_path_factory.getbasetemp() / "flipped"
    size = (whole[0] / "log.db").stat().st_size
    _, found = flipped(whole, folder, chosen.randrange(size), chosen.randrange(8))
    if found and found.is_proved:
        with Log(folder) as log, Log(whole[0]) as before:
            assert [*log.rows(whole[1])] == [*before.rows(whole[1])]
            assert found.verified == 31


@pytest.mark.folder_only
def test_a_recovery_explains_what_is_lost(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        session = written(log)
        change(log, "UPDATE event SET body = x'00' WHERE seq = 4")
        assert log.verify(session).changed == 4
    assert recover(tmp_path).lost == {session: 1}
    with Log(tmp_path) as log:
        found = log.verify(session)
        assert (found.is_proved, found.verified, found.since) == (True, 4, COUNT + 1)
        assert found.notes == (
            f"5 entries not proved (entries 5 to {COUNT}): entries before them were lost, as a recovery says",
        )
        log.rename(session, "Goes on")
        assert log.verify(session).verified == 5
        change(log, "DELETE FROM event WHERE seq = 2")
        assert log.verify(session).changed == 2, "the recovery did not name it"
