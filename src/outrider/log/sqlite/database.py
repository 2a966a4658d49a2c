"""The SQLite file of the log: opening, schema, migrations and error messages."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from urllib.parse import quote

from outrider.errors import DamagedLogError, LogError, NewerLogError
from outrider.filesystem import make_private, sync_folder
from outrider.log.sqlite.filesystem import network_file_system
from outrider.log.sqlite.wal import is_cut_off, lost_commits

APPLICATION = 0x4F555452
"""SQLite's application id, which tells a log from the database of another program."""
BUSY_SECONDS = 10.0
"""How long to wait while another process is writing."""

MIGRATIONS = (
    """
    CREATE TABLE session (
        number INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused
        id TEXT NOT NULL UNIQUE,
        parent TEXT NOT NULL DEFAULT '',
        title TEXT NOT NULL DEFAULT '',
        model TEXT NOT NULL DEFAULT '',
        settings TEXT NOT NULL DEFAULT '{}', -- the newest value of each setting
        created REAL NOT NULL,
        updated REAL NOT NULL,
        opened INTEGER NOT NULL,          -- counts up with every use, independent of clocks
        last INTEGER NOT NULL DEFAULT 0,  -- the seq of the newest event
        turns INTEGER NOT NULL DEFAULT 0,
        size INTEGER NOT NULL DEFAULT 0,
        entries INTEGER NOT NULL DEFAULT 0, -- equal to `last`, unless events were lost
        input_tokens INTEGER NOT NULL DEFAULT 0,
        output_tokens INTEGER NOT NULL DEFAULT 0,
        cached_tokens INTEGER NOT NULL DEFAULT 0,
        cache_write_tokens INTEGER NOT NULL DEFAULT 0,
        reasoning_tokens INTEGER NOT NULL DEFAULT 0,
        cost REAL,
        holder TEXT NOT NULL DEFAULT '',  -- the process that has it open
        fence INTEGER NOT NULL DEFAULT 0, -- counts up with every holder; writes with an older number fail
        beat INTEGER NOT NULL DEFAULT 0,  -- counts up while the holder is alive
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
    """
    CREATE TABLE question (
        id TEXT PRIMARY KEY,
        session INTEGER NOT NULL,
        fence INTEGER NOT NULL,           -- of the holder that asks
        call_id TEXT NOT NULL,
        body TEXT NOT NULL,
        asked REAL NOT NULL,
        answer TEXT,                      -- NULL while it waits
        answered_by TEXT NOT NULL DEFAULT '',
        answered REAL
    );
    CREATE INDEX question_session ON question (session);
    CREATE TABLE signal (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        session INTEGER NOT NULL,
        fence INTEGER NOT NULL,           -- of the holder that it is for
        body TEXT NOT NULL,
        sent REAL NOT NULL,
        taken REAL
    );
    CREATE INDEX signal_session ON signal (session);
    CREATE TABLE listener (               -- holders that take messages
        session INTEGER PRIMARY KEY,
        fence INTEGER NOT NULL
    );
    """,
    """
    ALTER TABLE session ADD COLUMN chain BLOB NOT NULL DEFAULT x'';  -- the newest link of its entries
    """,
)
"""The scripts that upgrade the file, one a version.

The events are authoritative. The tables of sessions and references derive from them; those of the inbox end with the
holder of a session.
"""

_INBOX_VERSION, _CHAIN_VERSION = 2, 3


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Return a connection. Create the file with owner-only access if it is missing, and upgrade it if it is old."""
    with explain_errors(path):
        if _exists(path):
            open_for_reading(path).close()  # detects damage without changing the file
        else:
            _create(path)
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
    """Return a read-only connection that does not wait for writers. Raise LogError if the file is not an intact log."""
    with explain_errors(path, "read"):
        _exists(path)
        # Without a write-ahead log, the next connection must roll back an interrupted commit, which needs write access.
        interrupted = _size(path.with_name(f"{path.name}-journal"))
        try:
            connection = _connect_for_reading(path, "mode=rw" if interrupted else "mode=ro")
        except sqlite3.OperationalError:
            # The folder is read-only. The file can still be read if there is no write-ahead log.
            if _size(path.with_name(f"{path.name}-wal")):
                raise
            connection = _connect_for_reading(path, "mode=ro&immutable=1")
        try:
            connection.execute("BEGIN")
            _version(connection, path)
            if lost := lost_commits(path):
                raise damaged(path, f"its last {lost} changes cannot be read")
            if is_cut_off(path):
                raise damaged(path, "the end of its write-ahead log is missing, with changes that were saved")
        except BaseException:
            connection.close()
            raise
        return connection


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a connection for reading within one transaction, and translate its errors."""
    connection = open_for_reading(path)
    try:
        if _version(connection, path) < len(MIGRATIONS) and _is_writable(path):
            connection.close()
            open_for_writing(path).close()
            connection = open_for_reading(path)
        with explain_errors(path, "read"):
            yield connection
    finally:
        connection.close()


def _is_writable(path: Path) -> bool:
    """Return whether the file can be upgraded. Another, such as on a read-only disk, is read as it is."""
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def has_inbox(connection: sqlite3.Connection) -> bool:
    """Return whether the file has the tables of the inbox. An old one that cannot be upgraded has not."""
    return _stored_version(connection) >= _INBOX_VERSION


def has_chain(connection: sqlite3.Connection) -> bool:
    """Return whether the entries of the file can be chained. Those of an old one that cannot be upgraded are not."""
    return _stored_version(connection) >= _CHAIN_VERSION


def _stored_version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def connect_for_watching(path: Path) -> sqlite3.Connection:
    """Return a read-only connection outside a transaction, which does not wait for writers."""
    with explain_errors(path, "read"):
        connection = _connect_for_reading(path, "mode=ro")
        connection.execute("PRAGMA busy_timeout=0")
        return connection


def _connect_for_reading(path: Path, mode: str) -> sqlite3.Connection:
    address = f"file:{quote(str(path))}?{mode}"
    connection = sqlite3.connect(address, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=True)
    try:
        connection.execute("PRAGMA user_version").fetchone()  # SQLite opens the file at the first statement
    except BaseException:
        connection.close()
        raise
    connection.text_factory = _text
    return connection


def _text(data: bytes) -> str:
    return data.decode(errors="replace")  # damaged text should not prevent reading the rest


def _exists(path: Path) -> bool:
    """Return whether the file has content. Raise LogError if it is a folder, or empty beside a write-ahead log."""
    refuse_folder(path)
    if _size(path):
        return True
    if _size(path.with_name(f"{path.name}-wal")):
        raise damaged(path, "it is empty, but its write-ahead log is not")
    return False


def refuse_folder(path: Path) -> None:
    """Raise LogError if the path is a folder."""
    if path.is_dir():
        raise LogError(f"{path} is a folder, but the log must be a file; move it away")


def _create(path: Path) -> None:
    """Create the file with owner-only access."""
    make_private(path.parent)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    sync_folder(path.parent)


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    connection.text_factory = _text
    # The write-ahead log needs memory shared through a file, which does not work across machines.
    _set_journal_mode(connection, "truncate" if network_file_system(path.parent) else "wal")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA fullfsync=ON")  # macOS: flush the drive's cache; no effect elsewhere
    connection.execute("PRAGMA secure_delete=ON")  # overwrite deleted content


def _set_journal_mode(connection: sqlite3.Connection, mode: str) -> None:
    """Set the journal mode, with our own wait for other processes: SQLite does not wait here."""
    deadline = time.monotonic() + BUSY_SECONDS
    while connection.execute("PRAGMA journal_mode").fetchone()[0] != mode:
        try:
            connection.execute(f"PRAGMA journal_mode={mode}")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.005)


def _version(connection: sqlite3.Connection, path: Path) -> int:
    with _transaction(connection):  # another process may be creating the file
        application: int = connection.execute("PRAGMA application_id").fetchone()[0]
        version = _stored_version(connection)
        if (application, version) == (APPLICATION, len(MIGRATIONS)):
            return version
        empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
    if empty and version == 0 and application in (0, APPLICATION):
        return 0
    if application == APPLICATION and version <= 0:
        raise damaged(path, f"its format number is {version}")
    if application != APPLICATION:
        raise LogError(f"{path} is a database of another program; choose another folder for the log")
    if version > len(MIGRATIONS):
        raise NewerLogError(
            f"{path} was written by a newer version of Outrider (format {version}, this version reads up to "
            f"{len(MIGRATIONS)}); upgrade Outrider to use it"
        )
    return version


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Use the open transaction, or open one and roll it back at the end."""
    own = not connection.in_transaction
    if own:
        connection.execute("BEGIN")
    try:
        yield
    finally:
        if own:
            with suppress(sqlite3.Error):  # on damage SQLite may have ended it already
                connection.execute("ROLLBACK")


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Upgrade the file to this version in one transaction, even if other processes try the same."""
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


@cache
def _statements(script: str) -> tuple[str, ...]:
    found: list[str] = []
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            found.append(statement)
            statement = ""
    return tuple(found)


@contextmanager
def explain_errors(path: Path, verb: str = "written") -> Iterator[None]:
    """Raise errors of SQLite and the file system as a LogError that says what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise explain(error, path, verb) from error
    except UnicodeDecodeError as error:  # from a table or column name
        raise damaged(path, "it has names that are not text") from error
    except OSError as error:
        raise LogError(
            f"the log {path} cannot be {verb}: {error.strerror or error}; check its folder, or set "
            "OUTRIDER_HOME to a folder that you may write to"
        ) from error


def explain(error: sqlite3.Error, path: Path, verb: str = "written") -> LogError:
    """Return an error of SQLite as a LogError that says what to do."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    # The SQL is fixed and correct, so SQLITE_ERROR (a statement that cannot be compiled) means damage too.
    broken = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
    if code in broken or isinstance(error, sqlite3.IntegrityError):
        return damaged(path, str(error))
    if code == sqlite3.SQLITE_FULL:
        return LogError(f"the log {path} cannot grow: the disk is full. Free some space and continue: nothing is lost")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        way_out = "Check the permissions of its folder, or set OUTRIDER_HOME to another"
        return LogError(f"the log {path} cannot be {verb}: {error}. {way_out}")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LogError(f"another process has been writing to the log {path} for too long; try again")
    return LogError(f"the log {path} cannot be {verb}: {error}")


def damaged(path: Path, why: str) -> DamagedLogError:
    """Return an error that says why the log is damaged and how to recover it."""
    return DamagedLogError(f"the log {path} is damaged ({why}); `outrider sessions recover` saves the intact entries")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
