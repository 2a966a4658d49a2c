"""The tables of the inbox, whatever keeps them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from outrider.errors import SessionLostError
from outrider.log.sql import Statement, Work
from outrider.log.summary import SessionRow

T = TypeVar("T")

ANSWERED_SECONDS = 600.0
"""How long a question stays in the log after its answer, for those who look at it elsewhere; and a message after it
was taken, for its sender."""

CLOSED = "the session was closed, taken over by another process, or deleted; open it again"
QUESTIONS = (
    "SELECT session.number, question.id, session.id, call_id, asked, body, answer, answered_by, answered, "
    "question.fence = 0 FROM question JOIN session "
    "ON session.number = question.session AND (session.fence = question.fence OR question.fence = 0)"
)
"""The questions with their sessions, in the order of `QuestionRow`.

A question has the fence of the holder that asks, with which it ends; 0 if it needs none.
"""
WAITING_SIGNALS = "session = $1 AND fence = $2 AND taken IS NULL"
_HELD = "number = $1 AND fence = $2 AND holder <> ''"


def next_beat(now: float, seconds: float) -> float:
    """Return the next moment on a beat of so many seconds, so that timers of one event loop wake it up together.

    >>> next_beat(7.03, 0.5), next_beat(7.5, 0.5)
    (7.5, 8.0)
    """
    return (int(now / seconds) + 1) * seconds


DELIVERED = 0.0
"""Stored as the time at which a message was taken, while the holder has it and is not done with it."""


class SignalRow(NamedTuple):
    """A message to the holder of a session."""

    session: int
    fence: int
    taken: float | None
    """When it was taken; None if it waits."""


class QuestionRow(NamedTuple):
    """A question with its session, which the holder that asked still has, or which needs no holder."""

    number: int
    """The number of the session."""
    id: str
    session: str
    call_id: str
    asked: float
    body: str
    answer: str | None
    answered_by: str
    answered: float | None = None
    is_lasting: bool = False
    """Whether it needs no holder."""


class InboxView(Protocol):
    """What a watcher sees of the inbox."""

    def question(self, id: str) -> QuestionRow | None:
        """Return a question."""

    def has_signals(self, number: int, fence: int) -> bool:
        """Return whether there are messages for this holder to take."""


class Watcher(Protocol):
    """Calls functions on the event loop when a log has changed."""

    def watch(self, look: Callable[[InboxView], None], is_busy: Callable[[], bool]) -> Callable[[], None]:
        """Call `look` soon, and within 0.5 s of each change, 0.1 s if `is_busy`. Return a function that ends it."""

    def look_soon(self) -> None:
        """Look again, whether or not the log has changed: something is awaited from now on."""

    def close(self) -> None:
        """Stop watching."""


class InboxDatabase(Protocol):
    """Where the tables of the inbox are. Methods raise LogError."""

    def exists(self) -> bool:
        """Return whether there are such tables. The first write creates them."""

    def is_alive(self, row: SessionRow) -> bool:
        """Return whether the holder lives, as far as can be told without waiting for its heartbeat."""

    def numbered(self, number: int) -> SessionRow | None:
        """Return a session."""

    def read(self, work: Callable[[], Work[T]]) -> T:
        """Run work that only reads."""

    def change(self, work: Callable[[], Work[T]]) -> T:
        """Run work that writes, and wait."""

    def post(self, work: Callable[[], Work[None]]) -> None:
        """Run work soon, in the order of the holder's writes. Safe in finalizers."""

    async def submit(self, work: Callable[[], Work[T]]) -> T:
        """Run work in the order of the holder's writes, and wait in the event loop."""

    def watcher(self) -> Watcher:
        """Return a watcher of the log."""


class InboxTables:
    """Questions, messages, and the holders that take messages. Methods raise LogError."""

    def __init__(self, database: InboxDatabase) -> None:
        self._database = database
        self.exists, self.is_alive, self.numbered = database.exists, database.is_alive, database.numbered
        self.watcher = database.watcher

    def waiting(self) -> list[QuestionRow]:
        """Return the questions without an answer, the oldest first."""
        query = f"{QUESTIONS} WHERE answer IS NULL ORDER BY asked, question.id"
        return [QuestionRow(*row) for row in self._read(query)]

    def answered(self) -> list[QuestionRow]:
        """Return the lasting questions whose answers were not taken, the first answered first."""
        query = f"{QUESTIONS} WHERE question.fence = 0 AND answer IS NOT NULL ORDER BY answered, question.id"
        return [QuestionRow(*row) for row in self._read(query)]

    def unanswered(self, ids: Sequence[str]) -> set[str]:
        """Return those of these lasting questions that wait for an answer."""
        query = "SELECT id FROM question WHERE fence = 0 AND answer IS NULL AND id = ANY($1)"
        return {row[0] for row in self._read(query, list(ids))}

    def question(self, id: str) -> QuestionRow | None:
        """Return a question."""
        return self._database.read(lambda: find_question(id))

    def settle(self, id: str, answer: str, by: str, files: Sequence[str] = ()) -> bool:
        """Store an answer if it is the first, and the question waits. Its session may read the files from then on."""
        now = time.time()

        def work() -> Work[bool]:
            is_first = yield from _settle(id, answer, by, now)
            for file in files if is_first else ():
                added = "SELECT session, $1 FROM question WHERE id = $2 ON CONFLICT DO NOTHING"
                yield Statement(f"INSERT INTO reference (session, sha256) {added}", (file, id))
            return is_first

        return self._database.change(work)

    def send(self, number: int, fence: int, body: str) -> int:
        """Store a message to a holder. Return its number."""
        insert = "INSERT INTO signal (session, fence, body, sent) VALUES ($1, $2, $3, $4) RETURNING number"
        values = number, fence, body, time.time()
        return int(self._database.change(lambda: _rows(insert, *values))[0][0])

    def signal(self, number: int) -> SignalRow | None:
        """Return a message."""
        found = self._read("SELECT session, fence, taken FROM signal WHERE number = $1", number)
        return SignalRow(*found[0]) if found else None

    def is_listening(self, number: int, fence: int) -> bool:
        """Return whether the holder takes messages."""
        return bool(self._read("SELECT 1 FROM listener WHERE session = $1 AND fence = $2", number, fence))

    def _read(self, query: str, *values: Any) -> list[Any]:
        return self._database.read(lambda: _rows(query, *values))

    # For the holder

    def announce(self, number: int, fence: int) -> None:
        """Store soon that the holder takes messages."""
        self._post(
            f"INSERT INTO listener SELECT number, fence FROM session WHERE {_HELD} "
            "ON CONFLICT (session) DO UPDATE SET fence = excluded.fence",
            number,
            fence,
        )

    def withdraw(self, id: str) -> None:
        """Remove soon a question without an answer."""
        self._post("DELETE FROM question WHERE id = $1 AND answer IS NULL", id)

    def end_with_holder(self, fence: int, id: str) -> None:
        """Let an answered question end with the holder, soon."""
        self._post("UPDATE question SET fence = $1 WHERE id = $2 AND fence = 0 AND answer IS NOT NULL", fence, id)

    def reject(self, id: str, answer: str) -> None:
        """Remove soon an answer that does not count. The question waits again."""
        removed = "answer = NULL, answered_by = '', answered = NULL"
        self._post(f"UPDATE question SET {removed} WHERE id = $1 AND answer = $2", id, answer)

    def _post(self, sql: str, *values: Any) -> None:
        def work() -> Work[None]:
            yield Statement(sql, values)

        self._database.post(work)

    async def ask(self, number: int, fence: int, id: str, call_id: str, body: str, *, lasting: bool = False) -> None:
        """Store a question that ends with the holder unless `lasting`, and forget old ones. Raise SessionLostError."""
        now = time.time()

        def work() -> Work[None]:
            yield from _check_fence(number, fence)
            old = now - ANSWERED_SECONDS
            gone = "session = $1 AND fence <> 0 AND answered < $2"
            yield Statement(f"DELETE FROM question WHERE {gone}", (number, old))
            yield Statement(
                "INSERT INTO question (id, session, fence, call_id, body, asked) VALUES ($1, $2, $3, $4, $5, $6) "
                "ON CONFLICT DO NOTHING",  # an attempt whose answer was lost, or it waits already
                (id, number, 0 if lasting else fence, call_id, body, now),
            )

        await self._database.submit(work)

    async def give_up(self, number: int, fence: int, ids: Sequence[str]) -> None:
        """Let lasting questions end with the holder: their answers were taken, or are not needed any more."""

        def work() -> Work[None]:
            yield from _check_fence(number, fence)
            mine = "session = $1 AND fence = 0 AND id = ANY($2)"
            yield Statement(f"DELETE FROM question WHERE {mine} AND answer IS NULL", (number, list(ids)))
            yield Statement(f"UPDATE question SET fence = $3 WHERE {mine}", (number, list(ids), fence))

        await self._database.submit(work)

    def asked(self, ids: Sequence[str]) -> list[QuestionRow]:
        """Return those of these questions that are there."""
        found = self._read(f"{QUESTIONS} WHERE question.id = ANY($1)", list(ids)) if self.exists() else []
        return [QuestionRow(*row) for row in found]

    async def settle_own(self, id: str, answer: str, by: str) -> QuestionRow | None:
        """Store an answer. Return None if it is the first, else the question as it is."""
        now = time.time()

        def work() -> Work[QuestionRow | None]:
            is_first = yield from _settle(id, answer, by, now)
            return None if is_first else (yield from find_question(id))

        return await self._database.submit(work)

    async def signals(self, number: int, fence: int) -> list[tuple[int, str]]:
        """Return the messages that wait with their numbers, in order. Raise SessionLostError if the fence is wrong."""
        query = f"SELECT number, body FROM signal WHERE {WAITING_SIGNALS} ORDER BY number"

        def work() -> Work[list[tuple[int, str]]]:
            yield from _check_fence(number, fence)
            return (yield from _rows(query, number, fence))

        return await self._database.submit(work)

    async def mark(self, signals: Sequence[int], taken: float) -> None:
        """Store when messages were taken, or that the holder has them: `DELIVERED`. They are lost if it ends then.

        They do not wait any more, and their text is not needed.
        """
        update = "UPDATE signal SET taken = $1, body = '' WHERE number = ANY($2)"
        await self._database.submit(lambda: _rows(update, taken, list(signals)))


def find_question(id: str) -> Work[QuestionRow | None]:
    """Return a question of a holder that still has its session."""
    found = yield Statement(f"{QUESTIONS} WHERE question.id = $1", (id,))
    return QuestionRow(*found[0]) if found else None


def _rows(sql: str, *values: Any) -> Work[list[Any]]:
    return (yield Statement(sql, values))


def _settle(id: str, answer: str, by: str, now: float) -> Work[bool]:
    values = answer, by, now, id
    settled = yield Statement(
        "UPDATE question SET answer = $1, answered_by = $2, answered = $3 WHERE id = $4 AND answer IS NULL AND EXISTS "
        "(SELECT 1 FROM session WHERE number = question.session "
        "AND (question.fence = 0 OR (session.fence = question.fence AND holder <> ''))) RETURNING 1",
        values,
    )
    if not settled:  # or an attempt has stored it whose answer was lost
        same = "answer = $1 AND answered_by = $2 AND answered = $3 AND id = $4"
        settled = yield Statement(f"SELECT 1 FROM question WHERE {same}", values)
    return bool(settled)


def _check_fence(number: int, fence: int) -> Work[None]:
    if not (yield Statement(f"SELECT 1 FROM session WHERE {_HELD}", (number, fence))):
        raise SessionLostError(CLOSED)
