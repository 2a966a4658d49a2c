"""The instants at which a child can be killed: around whatever it tells the database, the file system and people."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.crash.ledger import Ledger

FILE_SYSTEM = ("fsync", "mkdir", "open", "replace", "unlink", "utime")
"""Functions of `os` that change something, or make it last."""
CHANGES = ("BEGIN IMMEDIATE", "COMMIT", "CREATE", "DELETE", "INSERT INTO", "PRAGMA journal_mode", "close")
"""Statements that change something; `close` may, because what waits beside the database is then taken into it."""
LASTING = ("COMMIT", "PRAGMA journal_mode", "close")
"""Those after which the file is another. After the others of a transaction it is still the same."""

SENT = ("COMMIT", "CREATE", "DELETE", "INSERT INTO", "UPDATE", "WITH")
"""Statements to Postgres that change something."""


class Points:
    """Counts how often each point is passed, and kills the process when one is passed for the given time."""

    def __init__(self, kill_at: str = "", record: Ledger | None = None, autocheckpoint: int = 0) -> None:
        self._name, _, count = kill_at.rpartition(":")
        self._count = int(count or 0)
        self._record = record
        self._autocheckpoint = autocheckpoint
        self._passed: Counter[str] = Counter()
        self._lock = threading.Lock()

    def passed(self, name: str) -> None:
        """The process is there now."""
        with self._lock:
            self._passed[name] += 1
            if self._record:
                self._record.write(point=f"{name}:{self._passed[name]}")
            if (name, self._passed[name]) == (self._name, self._count):
                os.kill(os.getpid(), signal.SIGKILL)

    def install(self) -> None:
        """Watch the database and the file system from now on, for as long as the process lives."""
        for name in FILE_SYSTEM:
            setattr(os, name, self._around(f"os.{name}", getattr(os, name)))
        connect = sqlite3.connect
        watched = type("Connection", (Connection,), {"passed": staticmethod(self.passed)})

        def connect_watched(*args: Any, **kwargs: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = connect(*args, **kwargs, factory=watched)
            if self._autocheckpoint:
                connection.execute(f"PRAGMA wal_autocheckpoint={self._autocheckpoint}")
            return connection

        sqlite3.connect = connect_watched

    def install_in_postgres(self) -> None:
        """Watch what is sent to Postgres."""
        import asyncpg

        def watch(name: str) -> None:
            send = getattr(asyncpg.Connection, name)

            async def watched(connection: Any, sql: str, *args: Any, **kwargs: Any) -> Any:
                point = " ".join(sql.split()[:3])
                if not point.startswith(SENT):
                    return await send(connection, sql, *args, **kwargs)
                self.passed(f"before {point}")
                outcome = await send(connection, sql, *args, **kwargs)
                self.passed(f"after {point}")
                return outcome

            setattr(asyncpg.Connection, name, watched)

        for name in ("execute", "executemany", "fetch", "fetchrow", "fetchval"):
            watch(name)

    def _around(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            if name == "os.open" and not args[1] & os.O_CREAT:
                return function(*args, **kwargs)
            self.passed(f"before {name}")
            try:
                return function(*args, **kwargs)
            finally:
                self.passed(f"after {name}")

        return watched


class Connection(sqlite3.Connection):
    """Passes a point before and after each statement that changes something."""

    passed: Callable[[str], None]

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        return self._around(sql, super().execute, sql, *args)

    def executemany(self, sql: str, *args: Any) -> sqlite3.Cursor:
        return self._around(sql, super().executemany, sql, *args)

    def close(self) -> None:
        self._around("close", super().close)

    def _around(self, sql: str, do: Callable[..., Any], *args: Any) -> Any:
        name = " ".join(sql.split()[:3])
        if not name.startswith(CHANGES):
            return do(*args)
        self.passed(f"before {name}")
        outcome = do(*args)
        if name.startswith(LASTING):
            self.passed(f"after {name}")
        return outcome
