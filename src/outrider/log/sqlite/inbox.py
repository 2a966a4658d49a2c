"""The inbox in SQLite: tables of the log's file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from outrider.log.holder import seems_alive
from outrider.log.sql import Work
from outrider.log.sqlite.database import has_inbox, reading
from outrider.log.sqlite.session_table import find
from outrider.log.sqlite.statements import run_work
from outrider.log.sqlite.watching import SqliteWatcher
from outrider.log.sqlite.writer import Writer
from outrider.log.summary import SessionRow

T = TypeVar("T")


class SqliteInbox:
    """Reads in connections of its own, and writes in the log's thread."""

    def __init__(self, path: Path, writer: Writer) -> None:
        self._path, self._writer = path, writer

    def exists(self) -> bool:
        """Return whether there is a log with such tables. An old one on a read-only disk has none."""
        if not self._path.exists():
            return False
        with reading(self._path) as connection:
            return has_inbox(connection)

    def is_alive(self, row: SessionRow) -> bool:
        return seems_alive(row.summary.holder, row.beaten)

    def numbered(self, number: int) -> SessionRow | None:
        with reading(self._path) as connection:
            return next(iter(find(connection, "number = ?", number)), None)

    def read(self, work: Callable[[], Work[T]]) -> T:
        with reading(self._path) as connection:
            return run_work(connection, work())

    def change(self, work: Callable[[], Work[T]]) -> T:
        return self._writer.run(lambda connection: run_work(connection, work()))

    def post(self, work: Callable[[], Work[None]]) -> None:
        self._writer.post(lambda connection: run_work(connection, work()))

    async def submit(self, work: Callable[[], Work[T]]) -> T:
        """Run work, and wait in the event loop."""
        found: list[T] = []

        def once(connection: sqlite3.Connection) -> None:
            found[:] = [run_work(connection, work())]

        await self._writer.submit(once).finished()
        return found[0]

    def watcher(self) -> SqliteWatcher:
        """Return a watcher of the file."""
        return SqliteWatcher(self._path)
