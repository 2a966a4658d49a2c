"""The tables of the inbox in SQLite."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

from outrider.errors import SessionLostError
from outrider.log.holder import STALE_SECONDS
from outrider.log.inbox_tables import ANSWERED_SECONDS, CLOSED, DELIVERED, QuestionRow, SignalRow
from outrider.log.sqlite.database import has_inbox, reading
from outrider.log.sqlite.inbox_rows import COLUMNS, JOINED, find_question
from outrider.log.sqlite.session_table import find
from outrider.log.sqlite.watching import SqliteWatcher
from outrider.log.sqlite.writer import Writer
from outrider.log.summary import SessionRow


class SqliteInboxTables:
    """Tables of the log's file."""

    def __init__(self, path: Path, writer: Writer) -> None:
        self._path, self._writer = path, writer

    def exists(self) -> bool:
        """Return whether there is a log with such tables. An old one on a read-only disk has none."""
        if not self._path.exists():
            return False
        with reading(self._path) as connection:
            return has_inbox(connection)

    def is_alive(self, row: SessionRow) -> bool:
        """Return whether the holder lives."""
        holder = row.summary.holder
        if holder is None:
            return False
        alive = holder.is_alive()
        return abs(time.time() - row.beaten) < STALE_SECONDS if alive is None else alive

    def numbered(self, number: int) -> SessionRow | None:
        """Return a session."""
        with reading(self._path) as connection:
            return next(iter(find(connection, "number = ?", number)), None)

    def waiting(self) -> list[QuestionRow]:
        """Return the questions without an answer."""
        query = f"SELECT {COLUMNS} FROM {JOINED} WHERE answer IS NULL ORDER BY asked, question.id"
        with reading(self._path) as connection:
            return [QuestionRow(*row) for row in connection.execute(query)]

    def question(self, id: str) -> QuestionRow | None:
        """Return a question."""
        with reading(self._path) as connection:
            return find_question(connection, id)

    def settle(self, id: str, answer: str, by: str) -> bool:
        """Store the first answer."""
        return self._writer.run(lambda connection: _settle(connection, id, answer, by))

    def send(self, number: int, fence: int, body: str) -> int:
        """Store a message."""
        insert = "INSERT INTO signal (session, fence, body, sent) VALUES (?, ?, ?, ?)"
        values = number, fence, body, time.time()
        return self._writer.run(lambda connection: connection.execute(insert, values).lastrowid or 0)

    def signal(self, number: int) -> SignalRow | None:
        """Return a message."""
        query = "SELECT session, fence, taken FROM signal WHERE number = ?"
        with reading(self._path) as connection:
            found = connection.execute(query, (number,)).fetchone()
        return SignalRow(*found) if found else None

    def is_listening(self, number: int, fence: int) -> bool:
        """Return whether the holder takes messages."""
        with reading(self._path) as connection:
            query = "SELECT 1 FROM listener WHERE session = ? AND fence = ?"
            return connection.execute(query, (number, fence)).fetchone() is not None

    # For the holder

    def announce(self, number: int, fence: int) -> None:
        """Store soon that the holder takes messages."""

        def work(connection: sqlite3.Connection) -> None:
            _check_fence(connection, number, fence)
            connection.execute("INSERT OR REPLACE INTO listener VALUES (?, ?)", (number, fence))

        self._writer.post(work)

    def withdraw(self, id: str) -> None:
        """Remove soon a question without an answer."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM question WHERE id = ? AND answer IS NULL", (id,))

        self._writer.post(work)

    def reject(self, id: str, answer: str) -> None:
        """Remove soon an answer that does not count."""

        def work(connection: sqlite3.Connection) -> None:
            removed = "answer = NULL, answered_by = '', answered = NULL"
            connection.execute(f"UPDATE question SET {removed} WHERE id = ? AND answer = ?", (id, answer))

        self._writer.post(work)

    async def ask(self, number: int, fence: int, id: str, call_id: str, body: str) -> None:
        """Store a question, and forget old ones."""
        row = id, number, fence, call_id, body, time.time()

        def work(connection: sqlite3.Connection) -> None:
            _check_fence(connection, number, fence)
            old = time.time() - ANSWERED_SECONDS
            connection.execute("DELETE FROM question WHERE session = ? AND answered < ?", (number, old))
            connection.execute(
                "INSERT INTO question (id, session, fence, call_id, body, asked) VALUES (?, ?, ?, ?, ?, ?)", row
            )

        await self._writer.submit(work).finished()

    async def settle_own(self, id: str, answer: str, by: str) -> QuestionRow | None:
        """Store the first answer. Return the question if another was first."""
        found: list[QuestionRow | None] = []

        def work(connection: sqlite3.Connection) -> None:
            is_first = _settle(connection, id, answer, by)
            found.append(None if is_first else find_question(connection, id))

        await self._writer.submit(work).finished()
        return found[0]

    async def signals(self, number: int, fence: int) -> list[tuple[int, str]]:
        """Return the messages that wait."""
        found: list[tuple[int, str]] = []
        query = "SELECT number, body FROM signal WHERE session = ? AND fence = ? AND taken IS NULL ORDER BY number"

        def work(connection: sqlite3.Connection) -> None:
            _check_fence(connection, number, fence)
            found.extend(connection.execute(query, (number, fence)).fetchall())

        await self._writer.submit(work).finished()
        return found

    async def mark_delivered(self, signals: Sequence[int]) -> None:
        """Store that the holder has messages."""
        await self._mark(signals, DELIVERED)

    async def mark_taken(self, signals: Sequence[int]) -> None:
        """Store that messages were taken."""
        await self._mark(signals, time.time())

    async def _mark(self, signals: Sequence[int], taken: float) -> None:
        def work(connection: sqlite3.Connection) -> None:
            values = [(taken, number) for number in signals]
            connection.executemany("UPDATE signal SET taken = ?, body = '' WHERE number = ?", values)

        await self._writer.submit(work).finished()

    def watcher(self) -> SqliteWatcher:
        """Return a watcher of the file."""
        return SqliteWatcher(self._path)


def _settle(connection: sqlite3.Connection, id: str, answer: str, by: str) -> bool:
    cursor = connection.execute(
        "UPDATE question SET answer = ?, answered_by = ?, answered = ? WHERE id = ? AND answer IS NULL AND EXISTS "
        "(SELECT 1 FROM session WHERE number = question.session AND session.fence = question.fence AND holder != '')",
        (answer, by, time.time(), id),
    )
    return cursor.rowcount == 1


def _check_fence(connection: sqlite3.Connection, number: int, fence: int) -> None:
    query = "SELECT 1 FROM session WHERE number = ? AND fence = ? AND holder != ''"
    if not connection.execute(query, (number, fence)).fetchone():
        raise SessionLostError(CLOSED)
