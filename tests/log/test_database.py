"""The database file of the log: private, migrated from older versions, with clear errors."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import Message
from outrider.errors import DamagedLogError, LogError, NewerLogError
from outrider.log.entries import MessageEntry
from outrider.log.log import Log
from outrider.log.sql import Statement
from outrider.log.sqlite.database import (
    APPLICATION,
    MIGRATIONS,
    explain,
    explain_errors,
    open_for_reading,
    open_for_writing,
    reading,
)
from outrider.log.sqlite.statements import execute
from tests.log import Process, change, look, open_session, patch_everywhere

VERSION = len(MIGRATIONS)

COLOURS = """
    -- a step; with a comment; that has semicolons
    ALTER TABLE session ADD COLUMN colour TEXT NOT NULL DEFAULT 'grey; or so';
    CREATE TABLE applied (step TEXT NOT NULL);
    CREATE TRIGGER counted AFTER INSERT ON applied BEGIN
        UPDATE session SET colour = 'red';
        UPDATE session SET colour = colour || '; ' || new.step;
    END;
    INSERT INTO applied VALUES ('colours');
"""
BREAKS = """
    ALTER TABLE session ADD COLUMN colour TEXT NOT NULL DEFAULT 'grey';
    DELETE FROM event;
    INSERT INTO there_is_no_such_table VALUES (1);
"""


@pytest.fixture
def open_umask() -> Iterator[None]:
    """A process that hides nothing by itself, so that what is private was made so on purpose."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def begun(log: Log, *words: str) -> str:
    """A session in which something was said."""
    journal = log.create()
    journal.write_now(*(MessageEntry(Message.user(word)) for word in words))
    journal.close()
    return journal.id


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        return version


def content_of(path: Path) -> dict[str, bytes]:
    """What is in the file and beside it. Whoever reads may leave an empty write-ahead log, and memory to share."""
    files = [each for each in path.parent.glob(f"{path.name}*") if not each.name.endswith("-shm")]
    return {each.name: content for each in files if (content := each.read_bytes())}


# For the owner alone


@pytest.mark.usefixtures("open_umask")
def test_all_that_the_log_makes_is_for_the_owner_alone(tmp_path: Path) -> None:
    with Log(tmp_path / "home" / "outrider") as log:
        session = open_session(log, ["ok"])
        asyncio.run(session.run(["Look.", Attachment(b"secret", name="a.txt")]))
        made = list(tmp_path.rglob("*"))
        names = {path.name for path in made}
        assert {"home", "outrider", "log.db", "log.db-wal", "log.db-shm", "attachments"} <= names
        assert {path.name: oct(mode(path)) for path in made if path.is_dir() and mode(path) != 0o700} == {}
        assert {path.name: oct(mode(path)) for path in made if path.is_file() and mode(path) != 0o600} == {}


@pytest.mark.usefixtures("open_umask")
def test_the_rollback_file_of_a_network_file_system_is_for_the_owner_alone_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch_everywhere(monkeypatch, network_file_system=lambda folder: "nfs4")
    with Log(tmp_path / "log") as log:
        begun(log, "hello")
        assert {path.name: oct(mode(path)) for path in log.folder.iterdir() if mode(path) != 0o600} == {}


@pytest.mark.usefixtures("open_umask")
def test_a_folder_that_was_there_stays_as_it_was(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with Log(tmp_path) as log:
        begun(log, "hello")
    assert mode(tmp_path) == 0o755
    assert mode(log.folder / "log.db") == 0o600


def test_looking_at_a_log_that_is_not_there_makes_nothing(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    assert log.sessions() == []
    assert log.remove_unreferenced_files() == (0, 0)
    with pytest.raises(LogError, match="has no log"):
        log.messages("0123")
    assert list(tmp_path.iterdir()) == []


# Files that are not ours, or not yet


def test_a_file_of_a_newer_version_is_refused_with_what_to_do_and_left_as_it_is(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        session = begun(log, "hello")
    change(log, f"PRAGMA user_version={VERSION + 1}")
    before = content_of(log.folder / "log.db")
    sentence = (
        rf"log\.db was written by a newer version of Outrider \(format {VERSION + 1}, this version reads "
        rf"up to {VERSION}\); upgrade Outrider to use it"
    )
    for use in (
        log.sessions,
        log.create,
        lambda: log.open(session),
        lambda: log.messages(session),
        lambda: log.delete(session),
    ):
        with pytest.raises(NewerLogError, match=sentence):
            use()
    log.close()
    assert content_of(log.folder / "log.db") == before


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_a_database_of_another_program_is_refused_and_left_as_it_is(tmp_path: Path, journal: str) -> None:
    path = tmp_path / "log.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode={journal}")
        connection.execute("CREATE TABLE bookmarks (url)")
        connection.commit()
    before = content_of(path)
    log = Log(tmp_path)
    for use in (log.create, log.sessions):
        with pytest.raises(LogError, match=r"log\.db is a database of another program; choose another folder"):
            use()
    log.close()
    assert content_of(path) == before


@pytest.mark.parametrize("version", [0, -1])
def test_a_log_whose_version_was_changed_to_none_is_called_damaged(tmp_path: Path, version: int) -> None:
    with Log(tmp_path) as log:
        begun(log, "hello")
    with closing(sqlite3.connect(log.folder / "log.db")) as connection:
        connection.execute(f"PRAGMA user_version={version}")
    with pytest.raises(DamagedLogError, match=rf"its format number is {version}\).*sessions recover"):
        Log(tmp_path).sessions()


def test_a_file_that_is_no_database_is_called_damaged_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    path.write_bytes(b"Dear diary, " * 1000)
    log = Log(tmp_path)
    for use in (log.create, log.sessions):
        with pytest.raises(DamagedLogError, match=r"log\.db is damaged .*; `outrider sessions recover` saves"):
            use()
    assert path.read_bytes() == b"Dear diary, " * 1000


def test_an_empty_file_becomes_a_log(tmp_path: Path) -> None:
    (tmp_path / "log.db").touch()
    with Log(tmp_path) as log:
        assert log.sessions() == []
        assert log.messages(begun(log, "hello")) == [Message.user("hello")]


def test_a_file_system_that_does_not_let_us_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LogError, match=r"file/log\.db cannot be written: Not a directory"):
        Log(tmp_path / "file").create()
    (tmp_path / "folder" / "log.db").mkdir(parents=True)
    with pytest.raises(LogError, match=r"folder/log\.db is a folder, but the log must be a file"):
        Log(tmp_path / "folder").create()


def test_who_failed_to_open_the_file_can_try_again(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    log = Log(tmp_path / "file")
    with pytest.raises(LogError):
        log.create()
    (tmp_path / "file").unlink()
    assert log.messages(begun(log, "hello")) == [Message.user("hello")]
    log.close()


def test_a_folder_with_odd_characters_in_its_name_can_be_used(tmp_path: Path) -> None:
    with Log(tmp_path / "100% of what?" / "#1 & co") as log:
        assert log.messages(begun(log, "hello")) == [Message.user("hello")]


# Forward


def test_an_older_file_is_brought_forward_with_all_that_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Log(tmp_path) as log:
        session = begun(log, "one", "two")
    patch_everywhere(monkeypatch, MIGRATIONS=(*MIGRATIONS, COLOURS))
    with Log(tmp_path) as log:
        journal = log.open(session)
        journal.write_now(MessageEntry(Message.user("three")))
        journal.close()
        assert log.messages(session) == [Message.user(word) for word in ("one", "two", "three")]
        assert look(log, "SELECT colour FROM session") == [("red; colours",)]
        assert version_of(log.folder / "log.db") == VERSION + 1


def test_reading_migrates_an_older_file_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Log(tmp_path) as log:
        session = begun(log, "one")
    patch_everywhere(monkeypatch, MIGRATIONS=(*MIGRATIONS, COLOURS))
    assert Log(tmp_path).messages(session) == [Message.user("one")]
    assert look(log, "SELECT colour FROM session") == [("red; colours",)]


def test_a_file_several_versions_behind_takes_each_step_once_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Log(tmp_path) as log:
        begun(log, "one")
    more = ("INSERT INTO applied VALUES ('second');", "INSERT INTO applied VALUES ('third');")
    patch_everywhere(monkeypatch, MIGRATIONS=(*MIGRATIONS, COLOURS, *more))
    for _ in range(2):
        with Log(tmp_path) as log:
            begun(log, "more")
    assert look(log, "SELECT step FROM applied ORDER BY rowid") == [("colours",), ("second",), ("third",)]
    assert version_of(log.folder / "log.db") == VERSION + 3


def test_a_new_file_takes_all_steps_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patch_everywhere(monkeypatch, MIGRATIONS=(*MIGRATIONS, COLOURS))
    with Log(tmp_path) as log:
        begun(log, "one")
    assert version_of(log.folder / "log.db") == VERSION + 1
    assert look(log, "PRAGMA application_id") == [(APPLICATION,)]
    assert look(log, "SELECT step FROM applied") == [("colours",)]


@pytest.mark.parametrize("steps", [(BREAKS,), (COLOURS, "DELETE FROM event;", "There is no such statement;")])
def test_a_step_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: tuple[str, ...]
) -> None:
    with Log(tmp_path) as log:
        session = begun(log, "one")
    before = (
        look(log, "SELECT * FROM session"),
        look(log, "SELECT * FROM event"),
        look(log, "SELECT * FROM sqlite_master"),
    )
    patch_everywhere(monkeypatch, MIGRATIONS=(*MIGRATIONS, *steps))
    for use in (log.create, log.sessions):
        with pytest.raises(LogError, match=r"is damaged \((no such table|.*syntax error)"):
            use()
    assert version_of(log.folder / "log.db") == VERSION
    after = (
        look(log, "SELECT * FROM session"),
        look(log, "SELECT * FROM event"),
        look(log, "SELECT * FROM sqlite_master"),
    )
    assert after == before
    patch_everywhere(monkeypatch, MIGRATIONS=(*MIGRATIONS, COLOURS))
    assert Log(tmp_path).messages(session) == [Message.user("one")]


def test_a_step_for_which_the_disk_is_too_small_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Log(tmp_path) as log:
        begun(log, "one")
    large = """
        PRAGMA max_page_count=1;
        CREATE TABLE large (data BLOB);
        INSERT INTO large VALUES (randomblob(1000000));
    """
    patch_everywhere(monkeypatch, MIGRATIONS=(*MIGRATIONS, large))
    with pytest.raises(LogError, match="the disk is full"):
        log.create()
    log.close()
    assert version_of(log.folder / "log.db") == VERSION


def test_two_processes_migrate_a_file_once(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        session = begun(log, "one")
    script = """
        from outrider.log.sqlite import database
        database.MIGRATIONS = (*database.MIGRATIONS, arguments[1])
        say("ready")
        hear()
        say("trying")
        log = Log(arguments[0])
        say(log.messages(arguments[2])[0].text)
        talk(log).close()
    """
    with ExitStack() as stack:
        processes = [stack.enter_context(Process(script, tmp_path, COLOURS, session)) for _ in range(2)]
        assert [process.hear() for process in processes] == ["ready", "ready"]
        busy = stack.enter_context(closing(sqlite3.connect((log.folder / "log.db"), isolation_level=None)))
        busy.execute("BEGIN IMMEDIATE")  # neither can finish before both have begun
        for process in processes:
            process.tell()
        assert [process.hear() for process in processes] == ["trying", "trying"]
        busy.execute("ROLLBACK")
        assert [process.hear() for process in processes] == ["one", "one"]
        for process in processes:
            assert process.end() == []
    assert look(log, "SELECT step FROM applied") == [("colours",)]
    assert look(log, "SELECT count(*) FROM session") == [(3,)]


def test_processes_that_make_the_file_at_the_same_moment_do_not_disturb_each_other(tmp_path: Path) -> None:
    script = """
        failures = []
        for name in range(6):
            say("ready")
            hear()
            try:
                log = Log(os.path.join(arguments[0], str(name)))
                talk(log).close()
                log.sessions()
                log.close()
            except Exception as error:
                failures.append(repr(error))
        say(failures)
    """
    with ExitStack() as stack:
        processes = [stack.enter_context(Process(script, tmp_path)) for _ in range(4)]
        for _ in range(6):
            assert [process.hear() for process in processes] == ["ready"] * 4
            for process in processes:
                process.tell()
        assert [process.hear() for process in processes] == ["[]"] * 4
    for name in range(6):
        assert look(Log(tmp_path / str(name)), "SELECT count(*) FROM session") == [(4,)]


def test_who_comes_while_another_process_makes_the_file_waits_for_it(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    path.touch()
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(0.2, other.execute, ["ROLLBACK"])
        timer.start()
        try:
            with Log(tmp_path) as log:
                session = begun(log, "hello")
        finally:
            timer.join()
    assert log.messages(session) == [Message.user("hello")]


# Reading


def test_a_reader_sees_committed_entries_and_does_not_wait_for_the_writer(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        session = begun(log, "one")
        with closing(sqlite3.connect((log.folder / "log.db"), isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            writer.execute("DELETE FROM event")
            assert log.messages(session) == [Message.user("one")]
            assert [summary.id for summary in log.sessions()] == [session]
            writer.execute("ROLLBACK")


def test_who_reads_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    with Log(tmp_path / "log") as log:
        session = begun(log, "one")
        copy = Log(tmp_path / "copy")  # as a process left it that was killed: the newest is in the write-ahead log
        copy.folder.mkdir()
        for path in (log.folder / "log.db", log.folder / "log.db-wal"):
            (copy.folder / path.name).write_bytes(path.read_bytes())
    before = content_of(copy.folder / "log.db")
    assert before["log.db-wal"]
    for _ in range(2):
        assert copy.messages(session) == [Message.user("one")]
        assert [summary.id for summary in copy.sessions()] == [session]
    assert content_of(copy.folder / "log.db") == before


def test_a_reader_rolls_back_a_commit_that_was_cut_off_without_a_write_ahead_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch_everywhere(monkeypatch, network_file_system=lambda folder: "nfs4")
    with Log(tmp_path) as log:
        session = begun(log, "one")
    script = """
        import sqlite3
        connection = sqlite3.connect(arguments[0], isolation_level=None)
        connection.execute("PRAGMA journal_mode=truncate")
        connection.execute("PRAGMA cache_size=1")
        connection.execute("PRAGMA cache_spill=1")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM event")
        connection.execute("CREATE TABLE large (data)")
        for _ in range(100):
            connection.execute("INSERT INTO large VALUES (randomblob(4000))")
        say("half")
        hear()
    """
    with Process(script, (log.folder / "log.db")) as other:
        assert other.hear() == "half"
        other.kill()
    assert (log.folder / "log.db").with_name("log.db-journal").stat().st_size, "a half is there to be undone"
    assert log.messages(session) == [Message.user("one")]


def test_a_connection_for_reading_cannot_write(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        begun(log, "one")
        with closing(open_for_reading(log.folder / "log.db")) as connection:
            for statement in ("DELETE FROM event", "PRAGMA user_version=7", "CREATE TABLE mine (x)"):
                with pytest.raises(sqlite3.OperationalError, match="readonly"):
                    connection.execute(statement)


UNPRIVILEGED = """
    import outrider.log.sqlite.backend  # while the interpreter's own files can be read
    if os.geteuid() == 0:
        os.setuid(65534)
    try:
        say([message.text for message in Log(arguments[0]).messages(arguments[1])])
    except LogError as error:
        say(type(error).__name__, error)
"""
"""A process that may look at the log but not write beside it."""


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that other users can reach."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def write_protected(log: Log) -> None:
    for path in log.folder.iterdir():
        path.chmod(0o444)
    log.folder.chmod(0o555)


def test_a_log_where_nothing_can_be_written_can_still_be_looked_at(shared: Path) -> None:
    with Log(shared) as log:
        session = begun(log, "hello")
    write_protected(log)
    with Process(UNPRIVILEGED, shared, session) as process:
        assert process.hear() == "['hello']"
    shared.chmod(0o755)


def test_a_log_that_cannot_be_read_whole_is_not_read_in_part(shared: Path) -> None:
    with Log(shared) as log:
        session = begun(log, "hello")
        # Another process was killed: its newest entries are only in the write-ahead log.
        copy = shared / "copy"
        copy.mkdir()
        for path in shared.glob("log.db*"):
            if not path.name.endswith("-shm"):
                (copy / path.name).write_bytes(path.read_bytes())
    write_protected(Log(copy))
    with Process(UNPRIVILEGED, copy, session) as process:
        assert process.hear().startswith("LogError the log ")
    copy.chmod(0o755)


def test_what_is_written_is_on_disk_before_it_counts_as_written(tmp_path: Path) -> None:
    with closing(open_for_writing(tmp_path / "log.db")) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,), "FULL"
        assert connection.execute("PRAGMA secure_delete").fetchone() == (1,)


def test_what_was_deleted_is_gone_from_the_file(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        session = begun(log, "the secret of the third cupboard")
        log.delete(session)
    assert b"third cupboard" not in b"".join(content_of(log.folder / "log.db").values())


# In words


def sqlite_error(code: int, kind: type[sqlite3.Error] = sqlite3.OperationalError) -> sqlite3.Error:
    error = kind("said by SQLite")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("code", "kind", "sentence"),
    [
        (sqlite3.SQLITE_CORRUPT, DamagedLogError, "is damaged (said by SQLite); `outrider sessions recover` saves"),
        (sqlite3.SQLITE_CORRUPT_INDEX, DamagedLogError, "is damaged"),
        (sqlite3.SQLITE_NOTADB, DamagedLogError, "is damaged"),
        (sqlite3.SQLITE_ERROR, DamagedLogError, "is damaged"),
        (sqlite3.SQLITE_FULL, LogError, "cannot grow: the disk is full. Free some space and continue"),
        (sqlite3.SQLITE_READONLY, LogError, "cannot be written: said by SQLite. Check the permissions of its folder"),
        (sqlite3.SQLITE_READONLY_DIRECTORY, LogError, "cannot be written"),
        (sqlite3.SQLITE_CANTOPEN, LogError, "cannot be written"),
        (sqlite3.SQLITE_CANTOPEN_ISDIR, LogError, "cannot be written"),
        (sqlite3.SQLITE_PERM, LogError, "cannot be written"),
        (
            sqlite3.SQLITE_BUSY,
            LogError,
            "another process has been writing to the log /x/log.db for too long; try again",
        ),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, LogError, "for too long"),
        (sqlite3.SQLITE_LOCKED, LogError, "for too long"),
        (sqlite3.SQLITE_IOERR_FSYNC, LogError, "the log /x/log.db cannot be written: said by SQLite"),
        (sqlite3.SQLITE_NOMEM, LogError, "cannot be written: said by SQLite"),
    ],
)
def test_each_error_of_sqlite_becomes_a_sentence_that_says_what_to_do(
    code: int, kind: type[LogError], sentence: str
) -> None:
    said = explain(sqlite_error(code), Path("/x/log.db"))
    assert type(said) is kind
    assert sentence in str(said)
    assert "/x/log.db" in str(said)


def test_two_rows_with_one_key_mean_that_the_file_is_damaged() -> None:
    error = sqlite_error(sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.IntegrityError)
    assert type(explain(error, Path("/x/log.db"))) is DamagedLogError


def test_an_error_without_a_code_has_its_own_words() -> None:
    said = str(explain(sqlite3.ProgrammingError("no luck"), Path("/x/log.db")))
    assert said.endswith("cannot be written: no luck")


def test_errors_of_the_file_system_become_errors_of_the_log_and_others_pass() -> None:
    with (
        pytest.raises(LogError, match="the log /x cannot be written: No space left on device"),
        explain_errors(Path("/x")),
    ):
        raise OSError(28, "No space left on device")
    with pytest.raises(KeyError), explain_errors(Path("/x")):
        raise KeyError("x")


def test_who_only_reads_is_not_told_about_writing() -> None:
    for error in (sqlite_error(sqlite3.SQLITE_CANTOPEN), sqlite_error(sqlite3.SQLITE_IOERR_READ), OSError(5, "no")):
        with pytest.raises(LogError, match="the log /x cannot be read: "), explain_errors(Path("/x"), "read"):
            raise error


def test_a_second_row_with_the_same_number_collides_instead_of_interleaving(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        begun(log, "one")
        with pytest.raises(sqlite3.IntegrityError):
            change(log, "INSERT INTO event SELECT * FROM event")


def test_the_sub_agents_of_a_session_are_found_without_reading_all_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Statement] = []

    def noting(connection: sqlite3.Connection, statement: Statement) -> list[Any]:
        asked.append(statement)
        return execute(connection, statement)

    with Log(tmp_path) as log:
        session = begun(log, "Hello.")
        monkeypatch.setattr("outrider.log.sqlite.backend.execute", noting)
        assert log.children(session) == []
        with reading(log.folder / "log.db") as connection:
            for statement in asked:
                plan = execute(connection, statement._replace(sql=f"EXPLAIN QUERY PLAN {statement.sql}"))
                assert not [step for step in plan if step[3].startswith("SCAN session")], statement
    assert any("parent" in statement.sql.partition("WHERE")[2] for statement in asked)
