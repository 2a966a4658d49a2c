"""The inbox in SQLite: tables of the log's file, and a watcher that notices changes, also by another process.

SQLite counts the changes of a file (`PRAGMA data_version`), and reading that number costs a few microseconds. So it is
polled: often while something is awaited, seldom otherwise, and not at all while no one watches.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from outrider.errors import LogError
from outrider.log.holder import seems_alive
from outrider.log.inbox_tables import WAITING_SIGNALS, InboxView, QuestionRow, find_question, next_beat
from outrider.log.sql import Statement, Work
from outrider.log.sqlite.database import connect_for_watching, has_inbox, reading
from outrider.log.sqlite.session_table import find
from outrider.log.sqlite.statements import execute, run_work
from outrider.log.sqlite.writer import Writer
from outrider.log.summary import SessionRow

T = TypeVar("T")
BUSY_SECONDS = 0.1
IDLE_SECONDS = 0.5


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


class _Watch(NamedTuple):
    look: Callable[[InboxView], None]
    is_busy: Callable[[], bool]


class _View:
    """What the connection of the watcher sees."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def question(self, id: str) -> QuestionRow | None:
        return run_work(self._connection, find_question(id))

    def has_signals(self, number: int, fence: int) -> bool:
        query = f"SELECT 1 FROM signal WHERE {WAITING_SIGNALS} LIMIT 1"
        return bool(execute(self._connection, Statement(query, (number, fence))))


class SqliteWatcher:
    """Calls functions on the event loop when a log has changed. One timer and one connection serve all of them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._watches: list[_Watch] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._version = -1

    def watch(self, look: Callable[[InboxView], None], is_busy: Callable[[], bool]) -> Callable[[], None]:
        watch = _Watch(look, is_busy)
        self._watches.append(watch)
        self._version = -1
        self._loop = asyncio.get_running_loop()
        self._schedule(0)

        def stop() -> None:
            with suppress(ValueError):
                self._watches.remove(watch)
            if not self._watches:
                self.close()

        return stop

    def look_soon(self) -> None:
        self._version = -1
        if self._loop and self._watches:
            self._schedule(0)

    def close(self) -> None:
        """Stop watching, and close the file."""
        self._watches.clear()
        if self._timer:
            self._timer.cancel()
            self._timer = None
        self._disconnect()

    def _schedule(self, seconds: float) -> None:
        assert self._loop
        if self._timer:
            self._timer.cancel()
        when = next_beat(self._loop.time(), seconds) if seconds else self._loop.time()
        self._timer = None if self._loop.is_closed() else self._loop.call_at(when, self._poll)

    def _poll(self) -> None:
        self._timer = None
        try:
            self._look_if_changed()
        except (sqlite3.Error, LogError):  # busy, replaced or damaged: look again later, with a new connection
            self._disconnect()
        if self._watches:
            self._schedule(BUSY_SECONDS if any(watch.is_busy() for watch in self._watches) else IDLE_SECONDS)

    def _look_if_changed(self) -> None:
        connection = self._connect()
        if connection is None:
            return
        version: int = connection.execute("PRAGMA data_version").fetchone()[0]
        if version == self._version:
            return
        self._version = version  # before the looks, which may ask for another one
        for watch in list(self._watches):
            watch.look(_View(connection))

    def _connect(self) -> sqlite3.Connection | None:
        """Return a connection to the file that is at the path now; a recovery may have replaced it."""
        try:
            found = self._path.stat()
        except OSError:
            self._disconnect()
            return None
        file = found.st_dev, found.st_ino
        if self._connection is None or self._file != file:
            self._disconnect()
            self._connection, self._file = connect_for_watching(self._path), file
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        self._version = -1
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()
