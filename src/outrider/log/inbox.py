"""The inbox: questions of open sessions, answered from any process of the owner, and messages to those sessions.

A question and a message belong to one holder of a session, known by its fence. They end with it: nothing is asked or
delivered in the name of a process that is gone. All of it is removed when the session is closed or opened again.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from outrider.errors import LogError, SessionLostError
from outrider.log.database import has_inbox, reading
from outrider.log.holder import STALE_SECONDS, Holder
from outrider.log.pending_write import deliver_cancel
from outrider.log.questions import Answer, Body, Question, Signal, check_answer, check_signal
from outrider.log.summary import SessionRow, find
from outrider.log.watching import Watcher
from outrider.log.writer import Writer
from outrider.text import clean, clean_value

T = TypeVar("T")
_COLUMNS = "question.id, session.id, call_id, asked, body, answer, answered_by"
_JOINED = "question JOIN session ON session.number = question.session AND session.fence = question.fence"
_decode_body = msgspec.json.Decoder(Body).decode
_decode_answer = msgspec.json.Decoder(Answer).decode
_decode_signal = msgspec.json.Decoder(Signal).decode


class Inbox:
    """The questions of all sessions of a log that wait for a person.

    >>> import tempfile
    >>> from outrider.log.log import Log
    >>> Log(tempfile.mkdtemp()).inbox.questions()
    []
    """

    def __init__(
        self, path: Path, writer: Writer, find_session: Callable[[str], SessionRow], held: Mapping[int, int]
    ) -> None:
        self._path = path
        self._writer = writer
        self._find_session = find_session
        self._held = held
        """The fence of each session that is open here, by session number."""
        self._watcher = Watcher(path)

    # From any process

    def questions(self, session: str | None = None) -> list[Question]:
        """Return the questions that wait, of all sessions or of one, the oldest first. Their holders are alive."""
        if not self._path.exists():
            return []
        number = None if session is None else self._find_session(session).number
        with reading(self._path) as connection:
            if not has_inbox(connection):
                return []
            query = f"SELECT session.number, {_COLUMNS} FROM {_JOINED} WHERE answer IS NULL ORDER BY asked, question.id"
            rows = [row for row in connection.execute(query) if number in (None, row[0])]
            numbers = {row[0] for row in rows}
            alive = {each for each in numbers if any(map(_is_alive, find(connection, "number = ?", each)))}
        found = (_question(row[1:]) for row in rows if row[0] in alive)
        return [each for each in found if each]

    def question(self, id: str) -> Question | None:
        """Return a question, also one that was answered; None if its session was closed or its turn was cancelled."""
        if not self._path.exists():
            return None
        with reading(self._path) as connection:
            return _find_question(connection, id)

    def answer(self, id: str, answer: Answer, by: str) -> bool:
        """Answer a question. Return False if it was answered before, or its session waits no more.

        The first answer wins; `question(id)` says who gave it. Raises ValidationError if the question does not offer
        the answer.
        """
        found = self.question(id)
        if found is None or not self._is_alive(found.session):
            return False
        check_answer(found.body, answer)
        return self._writer.run(lambda connection: _settle(connection, id, answer, by))

    def send(self, session: str, signal: Signal) -> int:
        """Send a message, or the wish to stop, to the process that has a session open. Return its number.

        Raises LogError if no process has it open that takes messages, and ValidationError for an empty message.
        """
        check_signal(signal)
        row = self._find_session(session)
        if not self.is_listening(session):
            holder = f"{row.summary.holder} does not take messages" if _is_alive(row) else "no process has it open"
            raise LogError(f"the session {row.summary.id[:8]} cannot be reached: {holder}")
        body = msgspec.json.encode(clean_value(msgspec.to_builtins(signal))).decode()
        insert = "INSERT INTO signal (session, fence, body, sent) VALUES (?, ?, ?, ?)"
        values = (row.number, row.fence, body, time.time())
        return self._writer.run(lambda connection: connection.execute(insert, values).lastrowid or 0)

    def is_taken(self, number: int) -> bool | None:
        """Return whether the session has taken a message; None if it was closed, or its process ended, before."""
        with reading(self._path) as connection:
            found = connection.execute(
                "SELECT session, fence, taken FROM signal WHERE number = ?", (number,)
            ).fetchone()
            if found is None:
                return None
            waits = any(map(_is_alive, find(connection, "number = ? AND fence = ?", *found[:2])))
        return True if found[2] is not None else (False if waits else None)

    def is_listening(self, session: str) -> bool:
        """Return whether a live process has the session open, and takes messages and answers from others."""
        row = self._find_session(session)
        if not _is_alive(row):
            return False
        with reading(self._path) as connection:
            query = "SELECT 1 FROM listener WHERE session = ? AND fence = ?"
            return connection.execute(query, (row.number, row.fence)).fetchone() is not None

    async def changes(self) -> AsyncIterator[None]:
        """Yield once now, and then whenever any process has changed the log."""
        import asyncio

        changed = asyncio.Event()
        changed.set()
        stop = self._watcher.watch(lambda _: changed.set(), lambda: True)
        try:
            while True:
                await changed.wait()
                changed.clear()
                yield
        finally:
            stop()

    def _is_alive(self, session: str) -> bool:
        return _is_alive(self._find_session(session))

    # For the holder

    def listen(self, session: str) -> HeldInbox:
        """Return the inbox of a session that is open here, and let other processes know that it takes messages."""
        row = self._find_session(session)
        if (fence := self._held.get(row.number)) is None:
            raise LogError(f"the session {row.summary.id[:8]} is not open here")
        return HeldInbox(row.number, fence, self._writer, self._watcher)

    def close(self) -> None:
        """Stop watching the file."""
        self._watcher.close()


class HeldInbox:
    """The inbox of one session, for its holder: asks, and takes answers and messages. Used in one event loop."""

    def __init__(self, number: int, fence: int, writer: Writer, watcher: Watcher) -> None:
        self._number, self._fence = number, fence
        self._writer = writer
        self._watcher = watcher
        writer.post(self._announce)

    def watch(self, look: Callable[[sqlite3.Connection], None], is_busy: Callable[[], bool]) -> Callable[[], None]:
        """Call `look` when the log has changed, soon if `is_busy`. Return a function that ends it."""
        return self._watcher.watch(look, is_busy)

    async def ask(self, call_id: str, body: Body) -> str:
        """Store a question, and return its id."""
        name = os.urandom(16).hex()
        text = msgspec.json.encode(clean_value(msgspec.to_builtins(body, enc_hook=str))).decode()
        row = (name, self._number, self._fence, clean(call_id), text, time.time())

        def work(connection: sqlite3.Connection) -> None:
            _check_fence(connection, self._number, self._fence)
            _forget_answered(connection, self._number)
            connection.execute(
                "INSERT INTO question (id, session, fence, call_id, body, asked) VALUES (?, ?, ?, ?, ?, ?)", row
            )

        try:
            await self._writer.submit(work).finished()
            await deliver_cancel()
        except BaseException:
            self.withdraw(name)
            raise
        return name

    def look_soon(self) -> None:
        """Let the watchers look soon, whether or not the log has changed."""
        self._watcher.look_soon()

    async def answer(self, id: str, answer: Answer, by: str) -> Question | None:
        """Answer an own question. Return None if this answer counts, else the question with the one before it."""
        earlier: list[Question | None] = []

        def work(connection: sqlite3.Connection) -> None:
            is_first = _settle(connection, id, answer, by)
            earlier.append(None if is_first else self.answered(connection, id))

        await self._writer.submit(work).finished()
        return earlier[0]

    def withdraw(self, id: str) -> None:
        """Remove a question that waits, soon. One that was answered stays, so that others can see by whom."""
        self._writer.post(lambda connection: _withdraw(connection, id))

    def answered(self, connection: sqlite3.Connection, id: str) -> Question | None:
        """Return an own question if it was answered."""
        found = _find_question(connection, id)
        return found if found and found.answer else None

    def has_signals(self, connection: sqlite3.Connection) -> bool:
        """Return whether there are messages to take."""
        query = "SELECT 1 FROM signal WHERE session = ? AND fence = ? AND taken IS NULL LIMIT 1"
        return connection.execute(query, (self._number, self._fence)).fetchone() is not None

    async def take_signals(self) -> Sequence[Signal]:
        """Take the messages that wait, in order, each exactly once."""
        taken: list[Signal] = []

        def work(connection: sqlite3.Connection) -> None:
            _check_fence(connection, self._number, self._fence)
            waiting = "session = ? AND fence = ? AND taken IS NULL"
            query = f"SELECT body FROM signal WHERE {waiting} ORDER BY number"
            rows = connection.execute(query, (self._number, self._fence)).fetchall()
            connection.execute(f"UPDATE signal SET taken = ? WHERE {waiting}", (time.time(), self._number, self._fence))
            taken.extend(_decode_signal(body) for (body,) in rows)

        await self._writer.submit(work).finished()
        return taken

    def _announce(self, connection: sqlite3.Connection) -> None:
        _check_fence(connection, self._number, self._fence)
        connection.execute("INSERT OR REPLACE INTO listener VALUES (?, ?)", (self._number, self._fence))


ANSWERED_SECONDS = 600.0
"""How long a question stays in the log after its answer, for those who look at it elsewhere."""


def _is_alive(row: SessionRow) -> bool:
    """Return whether the holder lives, as far as can be told without waiting for its heartbeat."""
    holder: Holder | None = row.summary.holder
    if holder is None:
        return False
    alive = holder.is_alive()
    return abs(time.time() - row.beaten) < STALE_SECONDS if alive is None else alive


def _settle(connection: sqlite3.Connection, id: str, answer: Answer, by: str) -> bool:
    """Store an answer if it is the first, and the holder that asked still has the session."""
    cursor = connection.execute(
        "UPDATE question SET answer = ?, answered_by = ?, answered = ? WHERE id = ? AND answer IS NULL AND EXISTS "
        "(SELECT 1 FROM session WHERE number = question.session AND session.fence = question.fence AND holder != '')",
        (msgspec.json.encode(clean_value(msgspec.to_builtins(answer))).decode(), clean(by), time.time(), id),
    )
    return cursor.rowcount == 1


def _withdraw(connection: sqlite3.Connection, id: str) -> None:
    connection.execute("DELETE FROM question WHERE id = ? AND answer IS NULL", (id,))


def _forget_answered(connection: sqlite3.Connection, number: int) -> None:
    old = time.time() - ANSWERED_SECONDS
    connection.execute("DELETE FROM question WHERE session = ? AND answered < ?", (number, old))


def _find_question(connection: sqlite3.Connection, id: str) -> Question | None:
    found = connection.execute(f"SELECT {_COLUMNS} FROM {_JOINED} WHERE question.id = ?", (id,)).fetchone()
    return _question(found) if found else None


def _question(row: tuple[Any, ...]) -> Question | None:
    """Return the question of a row; None if it is damaged, or of a kind that this version does not know."""
    name, session, call_id, asked, body, answer, by = row
    try:
        given = _decode_answer(answer) if answer else None
        return Question(name, session, call_id, asked, _decode_body(body), given, by)
    except msgspec.MsgspecError:
        return None


def _check_fence(connection: sqlite3.Connection, number: int, fence: int) -> None:
    query = "SELECT 1 FROM session WHERE number = ? AND fence = ? AND holder != ''"
    if not connection.execute(query, (number, fence)).fetchone():
        raise SessionLostError("the session was closed, taken over by another process, or deleted; open it again")
