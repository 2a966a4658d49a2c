"""The SQLite file of the search index. It is disposable: it is built from the log, and built again if it is damaged."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from functools import cache
from pathlib import Path

APPLICATION = 0x4F555453
FORM = 1
"""The form of the tables. A file of another form is built again."""
BUSY_SECONDS = 30.0

_TABLES = """
    CREATE TABLE session (
        number INTEGER PRIMARY KEY,  -- as in the log
        id TEXT NOT NULL,
        seq INTEGER NOT NULL,        -- the newest entry that is indexed
        checksum INTEGER NOT NULL,   -- of that entry: another one means another log
        messages INTEGER NOT NULL,   -- the number of messages up to there
        calls TEXT NOT NULL          -- the calls that had no result by then, as JSON
    );
    CREATE TABLE passage (
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        time REAL NOT NULL,
        message INTEGER NOT NULL,
        reference TEXT NOT NULL,
        kind TEXT NOT NULL,
        tool TEXT NOT NULL,
        folded TEXT NOT NULL
    );
    CREATE UNIQUE INDEX passage_message ON passage (session, message, reference, kind);
    CREATE INDEX passage_reference ON passage (session, reference);
"""
_TRIGRAMS = """
    CREATE VIRTUAL TABLE trigram
    USING fts5(folded, content='', detail=none, tokenize='trigram case_sensitive 1');
    -- Fewer and larger merges: building takes half the time.
    INSERT INTO trigram (trigram, rank) VALUES ('automerge', 0);
    INSERT INTO trigram (trigram, rank) VALUES ('crisismerge', 64);
    INSERT INTO trigram (trigram, rank) VALUES ('hashsize', 33554432);
"""
_REBUILT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
_UNUSABLE = (
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
)


@cache
def has_trigrams() -> bool:
    """Return whether this SQLite has FTS5 with trigrams. Without, searching reads every passage."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(_TRIGRAMS)
    except sqlite3.OperationalError:
        return False
    finally:
        connection.close()
    return True


def open_index(path: Path, trigrams: bool) -> sqlite3.Connection:
    """Return a connection to the index. If it is missing or of another form, build an empty one for its owner alone."""
    connection = _connect(path)
    try:
        connection.execute("PRAGMA secure_delete=ON")  # what is deleted from the log must not stay here
        connection.execute("PRAGMA synchronous=NORMAL")
        form = connection.execute("PRAGMA user_version").fetchone()[0]
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        if (application, form) != (APPLICATION, _form(trigrams)):
            clear(connection, trigrams)
    except BaseException:
        connection.close()
        raise
    return connection


def clear(connection: sqlite3.Connection, trigrams: bool) -> None:
    """Empty the index in one transaction, whatever its form was."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL%'"
        )
        for (name,) in tables.fetchall():
            _drop(connection, name)
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        for (name,) in tables.fetchall():
            _drop(connection, name)
        for statement in f"{_TABLES}{_TRIGRAMS if trigrams else ''}".split(";\n"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version={_form(trigrams)}")
        connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def remove(path: Path) -> None:
    """Delete the files of the index."""
    for name in (path.name, f"{path.name}-journal", f"{path.name}-wal", f"{path.name}-shm"):
        with suppress(OSError):
            path.with_name(name).unlink()


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether an error means that the file is damaged. The SQL is fixed, so a wrong statement means it, too."""
    return _code(error) in _REBUILT or isinstance(error, sqlite3.IntegrityError)


def is_unusable(error: sqlite3.Error) -> bool:
    """Return whether an error means that no index can be kept in this folder."""
    return _code(error) in _UNUSABLE


def _connect(path: Path) -> sqlite3.Connection:
    if str(path) != ":memory:":
        with suppress(OSError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    return sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def _drop(connection: sqlite3.Connection, name: str) -> None:
    quoted = name.replace('"', '""')
    connection.execute(f'DROP TABLE IF EXISTS "{quoted}"')


def _form(trigrams: bool) -> int:
    return 2 * FORM + trigrams


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
