"""SQLite files beside the log that are built from it. They are disposable: damaged or old ones are built again."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from outrider.errors import LogError
from outrider.log.sql import IndexDatabase, Statement, Work
from outrider.log.sqlite.statements import execute, run_work

T = TypeVar("T")
BUSY_SECONDS = 30.0
_REBUILT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
_UNUSABLE = (
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
)
"""Errors that mean that no index can be kept in this folder."""
_USAGE = """
    CREATE TABLE usage_indexed (
        session INTEGER PRIMARY KEY,  -- as in the log
        id TEXT NOT NULL,
        seq INTEGER NOT NULL,        -- the newest entry that is indexed
        checksum INTEGER NOT NULL,   -- of that entry: another one means another log
        model TEXT NOT NULL,
        folder TEXT NOT NULL
    );
    CREATE TABLE used (
        session INTEGER NOT NULL,
        quarter INTEGER NOT NULL,    -- of an hour
        model TEXT NOT NULL,         -- empty for that of the session
        requests INTEGER NOT NULL,
        input_tokens INTEGER NOT NULL,
        output_tokens INTEGER NOT NULL,
        cached_tokens INTEGER NOT NULL,
        cost REAL NOT NULL,
        first_token REAL NOT NULL,
        measured INTEGER NOT NULL,
        PRIMARY KEY (session, quarter, model)
    ) WITHOUT ROWID;
    CREATE TABLE turn (
        session INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        time REAL NOT NULL,
        tokens INTEGER NOT NULL,     -- of the context
        is_compaction INTEGER NOT NULL,
        cost REAL,
        PRIMARY KEY (session, seq)
    ) WITHOUT ROWID;
"""
USAGE_TABLES = 0x4F555455, 2, _USAGE
"""SQLite's application id of a usage index, the form of its tables, and the tables."""


class SqliteIndex:
    """An open file with an index."""

    sessions = "WHERE true"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @property
    def is_kept(self) -> bool:
        """Whether there is a file, and not only memory."""
        return bool(self._connection.execute("PRAGMA database_list").fetchone()[2])

    def fetch(self, sql: str, *values: Any) -> list[Any]:
        return execute(self._connection, Statement(sql, values))

    def run(self, work: Callable[[], Work[T]]) -> T:
        with transaction(self._connection):
            return run_work(self._connection, work())

    def together(self) -> AbstractContextManager[None]:
        return transaction(self._connection)


class IndexFile:
    """The file of one index. It is opened for each use. Only its owner has access."""

    is_separate = True

    def __init__(self, path: Path, name: str, application: int, form: int, tables: str) -> None:
        self.path = path
        self._name = name
        """What it is, for messages."""
        self._application = application
        self._form = form
        """The form of the tables. A file of another form is built again."""
        self._tables = tables

    def exists(self) -> bool:
        """Return whether there is a file."""
        return self.path.exists()

    def use(self, work: Callable[[IndexDatabase], T]) -> T:
        return self.run(lambda connection: work(SqliteIndex(connection)))

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run work on the file: once more on a new one if it is damaged, in memory if no file can be written."""
        try:
            try:
                return self._on(self.path, work)
            except sqlite3.Error as error:
                if not _is_damage(error):
                    raise
                _remove(self.path)
                return self._on(self.path, work)
        except sqlite3.Error as error:
            if not _is_damage(error) and _code(error) not in _UNUSABLE:
                raise LogError(f"the {self._name} {self.path} is in use ({error}); try again") from error
        try:
            return self._on(Path(":memory:"), work)
        except sqlite3.Error as error:
            raise LogError(f"the {self._name} cannot be built: {error}") from error

    def _on(self, path: Path, work: Callable[[sqlite3.Connection], T]) -> T:
        with closing(_connect(path)) as connection:
            connection.execute("PRAGMA secure_delete=ON")  # what is deleted from the log must not stay here
            connection.execute("PRAGMA synchronous=NORMAL")
            if not self._is_current(connection):
                with transaction(connection):
                    if not self._is_current(connection):  # another process may have built it meanwhile
                        self.clear(connection)
            return work(connection)

    def _is_current(self, connection: sqlite3.Connection) -> bool:
        form = connection.execute("PRAGMA user_version").fetchone()[0]
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        return (application, form) == (self._application, self._form)

    def clear(self, connection: sqlite3.Connection) -> None:
        """Empty the index in one transaction, whatever its form was."""
        with transaction(connection):
            tables = "SELECT name FROM sqlite_master WHERE type = 'table'"
            for condition in ("sql LIKE 'CREATE VIRTUAL%'", "name NOT LIKE 'sqlite_%'"):
                for (name,) in connection.execute(f"{tables} AND {condition}").fetchall():
                    connection.execute('DROP TABLE IF EXISTS "{}"'.format(name.replace('"', '""')))
            for statement in self._tables.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={self._form}")
            connection.execute(f"PRAGMA application_id={self._application}")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Write in one transaction; after an error, nothing. Use the one that is open."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # on damage SQLite may have ended it already
            connection.execute("ROLLBACK")
        raise


def _remove(path: Path) -> None:
    """Delete the files of an index."""
    for name in (path.name, f"{path.name}-journal", f"{path.name}-wal", f"{path.name}-shm"):
        with suppress(OSError):
            path.with_name(name).unlink()


def _is_damage(error: sqlite3.Error) -> bool:
    """Return whether an error means that the file is damaged. The SQL is fixed, so a wrong statement means it, too."""
    return _code(error) in _REBUILT or isinstance(error, sqlite3.IntegrityError)


def _connect(path: Path) -> sqlite3.Connection:
    if str(path) != ":memory:":
        with suppress(OSError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    return sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
