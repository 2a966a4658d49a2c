"""Messages that are queued while a run goes on. The run delivers them at its next boundary.

A boundary is between two requests: all calls of a reply have results, or the reply has none. A queued message is in the
log before `add` returns, so it survives a kill; the next run delivers it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from outrider.conversation.messages import Message
from outrider.log.entries import Entry, SteeringQueued, SteeringWithdrawn

if TYPE_CHECKING:
    from outrider.log.state import SessionState


class QueuedMessage(msgspec.Struct, frozen=True):
    """A message that waits for the next boundary of a run."""

    id: str
    message: Message

    @property
    def text(self) -> str:
        """The text of the message."""
        return self.message.text


class Recorder(Protocol):
    """What keeps entries and holds the state."""

    state: SessionState

    async def append(self, *entries: Entry) -> None:
        """Write entries, and return when they are kept."""
        ...


class Steering:
    """The queued messages of one session: those of its state, and those on their way into it or out of it."""

    def __init__(self, record: Recorder) -> None:
        self._record = record
        self.moving: dict[asyncio.Future[None], SteeringQueued | None] = {}
        """The messages that are being stored, and None for one that is being withdrawn. A boundary waits for them."""
        self._leaving: set[str] = set()
        """The ids of those that are being delivered or withdrawn."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def is_busy(self) -> bool:
        """Whether messages are being stored, delivered or withdrawn."""
        return bool(self.moving or self._leaving)

    @property
    def _waiting(self) -> list[SteeringQueued]:
        return [each for each in self._record.state.queued.values() if each.id not in self._leaving]

    @property
    def queued(self) -> tuple[QueuedMessage, ...]:
        """The messages that wait."""
        return tuple(QueuedMessage(each.id, each.message) for each in self._waiting)

    async def add(self, making: Coroutine[Any, Any, Message]) -> QueuedMessage:
        """Queue a message, and return it once it is in the log."""
        with self._move() as moved:
            entry = self.moving[moved] = SteeringQueued(os.urandom(8).hex(), await making)
            await self._record.append(entry)
            return QueuedMessage(entry.id, entry.message)

    async def withdraw(self, queued: QueuedMessage | None = None) -> QueuedMessage | None:
        """Take back a message, or the newest. Return None if it does not wait any more."""
        await self.settled()
        found = next((each for each in reversed(self._waiting) if queued is None or each.id == queued.id), None)
        if found is None:
            return None
        self._leaving.add(found.id)
        try:
            with self._move():
                await self._record.append(SteeringWithdrawn(found.id))
        finally:
            self._leaving.discard(found.id)
        return QueuedMessage(found.id, found.message)

    @contextmanager
    def _move(self) -> Iterator[asyncio.Future[None]]:
        moved = asyncio.get_running_loop().create_future()
        self.moving[moved] = None
        try:
            yield moved
        finally:
            del self.moving[moved]
            moved.set_result(None)

    async def settled(self) -> None:
        """Wait until no message is being stored or withdrawn."""
        while self.moving:
            await asyncio.wait(list(self.moving))

    @contextmanager
    def leaving(self) -> Iterator[list[SteeringQueued]]:
        """Take all messages that wait, to add them to the history. If that fails, they wait again."""
        taken = self._waiting
        self._leaving.update(each.id for each in taken)
        try:
            yield taken
        finally:
            self._leaving.difference_update(each.id for each in taken)

    def restated(self) -> list[SteeringQueued]:
        """Return the queue as entries, to store with each reply: replay may begin there, and needs the whole queue."""
        if not self._record.state.queued and not self.moving:
            return []
        return [*self._waiting, *(entry for entry in self.moving.values() if entry)]
