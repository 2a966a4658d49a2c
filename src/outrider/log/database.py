"""The SQLite file of the log: how it is opened, what is in it, and what its errors mean in words."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from outrider.errors import DamagedLogError, LogError, NewerLogError
from outrider.log.filesystem import network_file_system

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
        settings BLOB NOT NULL DEFAULT '{}', -- the newest value of each
        created REAL NOT NULL,
        updated REAL NOT NULL,
        opened INTEGER NOT NULL,          -- counts up with every opening: an order that no clock can upset
        last INTEGER NOT NULL DEFAULT 0,  -- the seq of its newest event
        turns INTEGER NOT NULL DEFAULT 0,
        size INTEGER NOT NULL DEFAULT 0,
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
        make_private(path)
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            _prepare(connection, path)
            _migrate(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection


def open_for_reading(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing and never waits for a writer."""
    with in_words(path):
        try:
            connection = _connect_for_reading(path, "mode=rw")
        except sqlite3.OperationalError:
            # Nothing can be written beside the file. It can still be read, if all of it is in the file itself.
            if _size(path.with_name(f"{path.name}-wal")):
                raise
            connection = _connect_for_reading(path, "mode=ro&immutable=1")
        try:
            _check_version(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection for reading, within one view of the file, its errors in words."""
    connection = open_for_reading(path)
    try:
        with in_words(path):
            connection.execute("BEGIN")
            yield connection
    finally:
        connection.close()


def _connect_for_reading(path: Path, mode: str) -> sqlite3.Connection:
    address = f"file:{quote(str(path))}?{mode}"
    connection = sqlite3.connect(address, BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=True)
    try:
        connection.execute("PRAGMA query_only=ON")
        connection.execute("PRAGMA user_version").fetchone()  # only now the file is really opened
    except BaseException:
        connection.close()
        raise
    connection.text_factory = _text
    return connection


def _text(data: bytes) -> str:
    return data.decode(errors="replace")  # a damaged name should not keep the rest from being read


def make_private(path: Path) -> None:
    """Make the file, and the folders above it that are not there, for the owner alone."""
    for folder in reversed(path.parents):
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Have the names in the folder survive a loss of power as well."""
    if sys.platform != "win32":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    connection.text_factory = _text
    # Memory that is shared through a file, which the write-ahead log needs, does not reach across machines.
    mode = "TRUNCATE" if network_file_system(path.parent) else "WAL"
    connection.execute(f"PRAGMA journal_mode={mode}")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA fullfsync=ON")  # macOS: through to the disk; elsewhere nothing
    connection.execute("PRAGMA secure_delete=ON")  # what is deleted is gone


def _version(connection: sqlite3.Connection, path: Path) -> int:
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if (application, version) == (APPLICATION, len(MIGRATIONS)):
        return version
    empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
    if empty and version == 0 and application in (0, APPLICATION):
        return 0
    if application != APPLICATION:
        raise LogError(f"{path} is a database of another program; name another folder for the log")
    if version > len(MIGRATIONS):
        raise NewerLogError(
            f"{path} was written by a newer version of Outrider (format {version}, this one knows up to "
            f"{len(MIGRATIONS)}); upgrade Outrider to use it"
        )
    return version


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    if _version(connection, path) < len(MIGRATIONS):
        open_for_writing(path).close()


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
def in_words(path: Path) -> Iterator[None]:
    """SQLite's errors, and the file system's, as a LogError that says what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise explained(error, path) from error
    except OSError as error:
        raise LogError(f"the log {path} cannot be used: {error.strerror or error}") from error


def explained(error: sqlite3.Error, path: Path) -> LogError:
    """An error of SQLite in words."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or isinstance(error, sqlite3.IntegrityError):
        return damaged(path, str(error))
    if code == sqlite3.SQLITE_FULL:
        return LogError(f"the log {path} cannot grow: the disk is full. Make room, then go on; nothing said is lost")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return LogError(f"the log {path} cannot be opened for writing: {error}. Look at the folder's permissions")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LogError(f"another process has been writing to the log {path} for too long; try again")
    return LogError(f"the log {path} cannot be used: {error}")


def damaged(path: Path, why: str) -> DamagedLogError:
    """That the file is not whole, and what helps."""
    return DamagedLogError(f"the log {path} is damaged ({why}); `outrider sessions recover` saves what is whole")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
