"""The tables of the inbox, whatever keeps them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from outrider.log.summary import SessionRow

ANSWERED_SECONDS = 600.0
"""How long a question stays in the log after its answer, for those who look at it elsewhere; and a message after it
was taken, for its sender."""

CLOSED = "the session was closed, taken over by another process, or deleted; open it again"


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
    """A question with its session, which the holder that asked still has."""

    number: int
    """The number of the session."""
    id: str
    session: str
    call_id: str
    asked: float
    body: str
    answer: str | None
    answered_by: str


class InboxView(Protocol):
    """What a watcher sees of the inbox."""

    def question(self, id: str) -> QuestionRow | None:
        """Return a question."""
        ...

    def has_signals(self, number: int, fence: int) -> bool:
        """Return whether there are messages for this holder to take."""
        ...


class Watcher(Protocol):
    """Calls functions on the event loop when a log has changed."""

    def watch(self, look: Callable[[InboxView], None], is_busy: Callable[[], bool]) -> Callable[[], None]:
        """Call `look` soon, and after every change. Return a function that ends it.

        It is called within about 0.1 s of a change if `is_busy`, else within 0.5 s.
        """
        ...

    def look_soon(self) -> None:
        """Look again, whether or not the log has changed: something is awaited from now on."""
        ...

    def close(self) -> None:
        """Stop watching."""
        ...


class InboxTables(Protocol):
    """Questions, messages, and the holders that take messages. Methods raise LogError."""

    def exists(self) -> bool:
        """Return whether there are such tables. The first write creates them."""
        ...

    def is_alive(self, row: SessionRow) -> bool:
        """Return whether the holder lives, as far as can be told without waiting for its heartbeat."""
        ...

    def numbered(self, number: int) -> SessionRow | None:
        """Return a session."""
        ...

    def waiting(self) -> list[QuestionRow]:
        """Return the questions without an answer, the oldest first."""
        ...

    def question(self, id: str) -> QuestionRow | None:
        """Return a question."""
        ...

    def settle(self, id: str, answer: str, by: str) -> bool:
        """Store an answer if it is the first, and the holder that asked still has the session."""
        ...

    def send(self, number: int, fence: int, body: str) -> int:
        """Store a message to a holder. Return its number."""
        ...

    def signal(self, number: int) -> SignalRow | None:
        """Return a message."""
        ...

    def is_listening(self, number: int, fence: int) -> bool:
        """Return whether the holder takes messages."""
        ...

    # For the holder

    def announce(self, number: int, fence: int) -> None:
        """Store soon that the holder takes messages."""
        ...

    def withdraw(self, id: str) -> None:
        """Remove soon a question without an answer."""
        ...

    def reject(self, id: str, answer: str) -> None:
        """Remove soon an answer that does not count. The question waits again."""
        ...

    async def ask(self, number: int, fence: int, id: str, call_id: str, body: str) -> None:
        """Store a question. Raise SessionLostError if the fence is not that of the holder."""
        ...

    async def settle_own(self, id: str, answer: str, by: str) -> QuestionRow | None:
        """Store an answer. Return None if it is the first, else the question as it is."""
        ...

    async def signals(self, number: int, fence: int) -> list[tuple[int, str]]:
        """Return the messages that wait with their numbers, in order. Raise SessionLostError if the fence is wrong."""
        ...

    async def mark_delivered(self, signals: Sequence[int]) -> None:
        """Store that the holder has messages. They do not wait any more; they are lost if it ends now."""
        ...

    async def mark_taken(self, signals: Sequence[int]) -> None:
        """Store that messages were taken. Their text is not needed any more."""
        ...

    def watcher(self) -> Watcher:
        """Return a watcher of the log."""
        ...
