"""The SQLite file of the log: how it is opened, what is in it, and what its errors mean in words."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from outrider.errors import DamagedLogError, LogError, NewerLogError
from outrider.filesystem import make_private, sync_folder
from outrider.log.filesystem import network_file_system
from outrider.log.wal import lost_commits

APPLICATION = 0x4F555452
"""Written into the file, so that a database of someone else is not taken for a log."""
BUSY_SECONDS = 10.0
"""How long to wait for another process that is writing."""

MIGRATIONS = (
    """
    CREATE TABLE session (
        number INTEGER PRIMARY KEY AUTOINCREMENT,  -- never given twice
        id TEXT NOT NULL UNIQUE,
        parent TEXT NOT NULL DEFAULT '',
        title TEXT NOT NULL DEFAULT '',
        model TEXT NOT NULL DEFAULT '',
        settings TEXT NOT NULL DEFAULT '{}', -- the newest value of each
        created REAL NOT NULL,
        updated REAL NOT NULL,
        opened INTEGER NOT NULL,          -- counts up with every opening: an order that no clock can upset
        last INTEGER NOT NULL DEFAULT 0,  -- the seq of its newest event
        turns INTEGER NOT NULL DEFAULT 0,
        size INTEGER NOT NULL DEFAULT 0,
        entries INTEGER NOT NULL DEFAULT 0, -- as many as `last`, unless some were lost
        input_tokens INTEGER NOT NULL DEFAULT 0,
        output_tokens INTEGER NOT NULL DEFAULT 0,
        cached_tokens INTEGER NOT NULL DEFAULT 0,
        cache_write_tokens INTEGER NOT NULL DEFAULT 0,
        reasoning_tokens INTEGER NOT NULL DEFAULT 0,
        cost REAL,
        holder TEXT NOT NULL DEFAULT '',  -- who has it open
        fence INTEGER NOT NULL DEFAULT 0, -- counts up with every holder: whoever has an older number lost it
        beat INTEGER NOT NULL DEFAULT 0,  -- counts up while the holder lives
        beaten REAL NOT NULL DEFAULT 0
    );
    CREATE INDEX session_opened ON session (opened);
    CREATE INDEX session_parent ON session (parent) WHERE parent != '';
    CREATE TABLE event (
        session INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        time REAL NOT NULL,
        kind TEXT NOT NULL,
        body BLOB NOT NULL,
        checksum INTEGER NOT NULL,
        PRIMARY KEY (session, seq)
    ) WITHOUT ROWID;
    CREATE TABLE reference (
        session INTEGER NOT NULL,
        sha256 TEXT NOT NULL,
        PRIMARY KEY (session, sha256)
    ) WITHOUT ROWID;
    """,
)
"""What makes each version of the file out of the one before. The events are the truth; the rest follows from them."""


def open_for_writing(path: Path) -> sqlite3.Connection:
    """A connection that makes the file if there is none, for the owner alone, and brings it to this version."""
    with in_words(path):
        if _exists(path):
            open_for_reading(path).close()  # which does not touch it, whatever is wrong with it
        else:
            _make(path)
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            _version(connection, path)
            _prepare(connection, path)
            _migrate(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection


def open_for_reading(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing and waits for no writer. Raises LogError if the file is not a whole log."""
    with in_words(path, "read"):
        _exists(path)
        # Where a commit was cut off without a write-ahead log, whoever comes next has to undo its half.
        half = _size(path.with_name(f"{path.name}-journal"))
        try:
            connection = _connect_for_reading(path, "mode=rw" if half else "mode=ro")
        except sqlite3.OperationalError:
            # Nothing can be written beside the file. It can still be read, if all of it is in the file itself.
            if _size(path.with_name(f"{path.name}-wal")):
                raise
            connection = _connect_for_reading(path, "mode=ro&immutable=1")
        try:
            connection.execute("BEGIN")
            _version(connection, path)
            if lost := lost_commits(path):
                raise damaged(path, f"its last {lost} changes cannot be read")
        except BaseException:
            connection.close()
            raise
        return connection


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection for reading, within one view of the file, its errors in words."""
    connection = open_for_reading(path)
    try:
        if _version(connection, path) < len(MIGRATIONS):
            connection.close()
            open_for_writing(path).close()
            connection = open_for_reading(path)
        with in_words(path, "read"):
            yield connection
    finally:
        connection.close()


def _connect_for_reading(path: Path, mode: str) -> sqlite3.Connection:
    address = f"file:{quote(str(path))}?{mode}"
    connection = sqlite3.connect(address, BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=True)
    try:
        connection.execute("PRAGMA user_version").fetchone()  # only now the file is really opened
    except BaseException:
        connection.close()
        raise
    connection.text_factory = _text
    return connection


def _text(data: bytes) -> str:
    return data.decode(errors="replace")  # a damaged name should not keep the rest from being read


def _exists(path: Path) -> bool:
    """Whether there is something to be read. Raises LogError where that is not a log, or not the whole of it."""
    refuse_folder(path)
    if _size(path):
        return True
    if _size(path.with_name(f"{path.name}-wal")):
        raise damaged(path, "it is empty, but its write-ahead log is not")
    return False


def refuse_folder(path: Path) -> None:
    """Raises LogError if there is a folder where the file should be."""
    if path.is_dir():
        raise LogError(f"{path} is a folder, where the file of the log should be; move it away")


def _make(path: Path) -> None:
    """Make the file, for the owner alone."""
    make_private(path.parent)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    sync_folder(path.parent)


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    connection.text_factory = _text
    # Memory that is shared through a file, which the write-ahead log needs, does not reach across machines.
    _set_journal_mode(connection, "truncate" if network_file_system(path.parent) else "wal")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA fullfsync=ON")  # macOS: through to the disk; elsewhere nothing
    connection.execute("PRAGMA secure_delete=ON")  # what is deleted is gone


def _set_journal_mode(connection: sqlite3.Connection, mode: str) -> None:
    """Wait for others as long as for anything else: SQLite itself does not wait here."""
    until = time.monotonic() + BUSY_SECONDS
    while connection.execute("PRAGMA journal_mode").fetchone()[0] != mode:
        try:
            connection.execute(f"PRAGMA journal_mode={mode}")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.005)


def _version(connection: sqlite3.Connection, path: Path) -> int:
    with _one_view(connection):  # another process may be making the file at this moment
        application: int = connection.execute("PRAGMA application_id").fetchone()[0]
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        if (application, version) == (APPLICATION, len(MIGRATIONS)):
            return version
        empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
    if empty and version == 0 and application in (0, APPLICATION):
        return 0
    if application == APPLICATION and version <= 0:
        raise damaged(path, f"it says that its format is {version}")
    if application != APPLICATION:
        raise LogError(f"{path} is a database of another program; name another folder for the log")
    if version > len(MIGRATIONS):
        raise NewerLogError(
            f"{path} was written by a newer version of Outrider (format {version}, this one knows up to "
            f"{len(MIGRATIONS)}); upgrade Outrider to use it"
        )
    return version


@contextmanager
def _one_view(connection: sqlite3.Connection) -> Iterator[None]:
    """Within one transaction, the one that there is or one of its own."""
    own = not connection.in_transaction
    if own:
        connection.execute("BEGIN")
    try:
        yield
    finally:
        if own:
            with suppress(sqlite3.Error):  # a damaged file ends it by itself
                connection.execute("ROLLBACK")


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the file to this version, all or nothing, whoever else is trying the same."""
    if _version(connection, path) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for number in range(_version(connection, path), len(MIGRATIONS)):
            for statement in _statements(MIGRATIONS[number]):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={number + 1}")
        connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


@contextmanager
def in_words(path: Path, verb: str = "written") -> Iterator[None]:
    """SQLite's errors, and the file system's, as a LogError that says what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise explained(error, path, verb) from error
    except UnicodeDecodeError as error:  # SQLite tells of a name in the file that is no text
        raise damaged(path, "it has names that are no text") from error
    except OSError as error:
        raise LogError(f"the log {path} cannot be {verb}: {error.strerror or error}; check its folder") from error


def explained(error: sqlite3.Error, path: Path, verb: str = "written") -> LogError:
    """An error of SQLite in words."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    # What is asked of it is always the same: that it cannot be understood (SQLITE_ERROR) is damage too.
    broken = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
    if code in broken or isinstance(error, sqlite3.IntegrityError):
        return damaged(path, str(error))
    if code == sqlite3.SQLITE_FULL:
        return LogError(f"the log {path} cannot grow: the disk is full. Make room, and go on: what was shown is stored")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return LogError(f"the log {path} cannot be {verb}: {error}. Look at the folder's permissions")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LogError(f"another process has been writing to the log {path} for too long; try again")
    return LogError(f"the log {path} cannot be {verb}: {error}")


def damaged(path: Path, why: str) -> DamagedLogError:
    """That the file is not whole, and what helps."""
    return DamagedLogError(f"the log {path} is damaged ({why}); `outrider sessions recover` saves what is whole")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
