"""Messages that are queued while a run goes on. The run delivers them at its next boundary.

A boundary is between two requests: all calls of a reply have results, or the reply has none. A queued message is in the
log before `add` returns, so it survives a kill; the next run delivers it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from outrider.conversation.messages import Message
from outrider.log.entries import Entry, MessageEntry
from outrider.log.entries import SteeringDelivered as DeliveredEntry
from outrider.log.entries import SteeringQueued as QueuedEntry
from outrider.log.entries import SteeringWithdrawn as WithdrawnEntry
from outrider.runtime.events import Event, SteeringQueued, SteeringWithdrawn

if TYPE_CHECKING:
    from outrider.log.journal import Journal


class QueuedMessage(msgspec.Struct, frozen=True):
    """A message that waits for the next boundary of a run."""

    id: str
    message: Message

    @property
    def text(self) -> str:
        """The text of the message."""
        return self.message.text


class Steering:
    """The queued messages of one session, the oldest first."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self.journal: Journal | None = None
        self._emit = emit
        self._queue: list[QueuedMessage] = []
        self._incoming: set[asyncio.Future[None]] = set()
        """The messages that are being stored. A boundary waits for them."""

    def __bool__(self) -> bool:
        return bool(self._queue)

    @property
    def has_any(self) -> bool:
        """Whether messages wait or are being stored."""
        return bool(self._queue or self._incoming)

    @property
    def queued(self) -> tuple[QueuedMessage, ...]:
        """The messages that wait."""
        return tuple(self._queue)

    def resume(self, queued: Iterable[QueuedEntry]) -> None:
        """Take over what the log has."""
        self._queue = [QueuedMessage(entry.id, entry.message) for entry in queued]

    async def add(self, making: Coroutine[Any, Any, Message]) -> QueuedMessage:
        """Queue a message, and return it once it is in the log."""
        stored = asyncio.get_running_loop().create_future()
        self._incoming.add(stored)
        try:
            queued = QueuedMessage(os.urandom(8).hex(), await making)
            self._queue.append(queued)
            try:
                await self._write(QueuedEntry(queued.id, queued.message))
            except BaseException:
                self._queue.remove(queued)
                raise
            self._emit(SteeringQueued(queued.id, queued.message))
            return queued
        finally:
            self._incoming.discard(stored)
            stored.set_result(None)

    async def withdraw(self, queued: QueuedMessage | None = None) -> QueuedMessage | None:
        """Take back a message, or the newest. Return None if it does not wait any more."""
        await self.settled()
        found = next((each for each in reversed(self._queue) if queued is None or each.id == queued.id), None)
        if found is None:
            return None
        place = self._queue.index(found)
        del self._queue[place]
        try:
            await self._write(WithdrawnEntry(found.id))
        except BaseException:
            self._queue.insert(place, found)
            raise
        self._emit(SteeringWithdrawn(found.id))
        return found

    async def settled(self) -> None:
        """Wait until no message is being stored."""
        while self._incoming:
            await asyncio.wait(self._incoming)

    @contextmanager
    def delivering(self) -> Iterator[list[QueuedMessage]]:
        """Take all messages, to add them to the history. If that raises, they wait again."""
        taken, self._queue = self._queue, []
        try:
            yield taken
        except BaseException:
            self._queue = [*taken, *self._queue]
            raise

    def restated(self) -> list[Entry]:
        """Return the queue as entries, to store with each reply: replay may begin there, and needs the whole queue."""
        return [QueuedEntry(each.id, each.message) for each in self._queue]

    async def _write(self, entry: Entry) -> None:
        if self.journal:
            await self.journal.write(entry).finished()


def entries_of(messages: Iterable[Message | QueuedMessage]) -> Iterator[Entry]:
    """Yield the entries that add these messages to the history."""
    for each in messages:
        if isinstance(each, QueuedMessage):
            yield DeliveredEntry(each.id)
            yield MessageEntry(each.message)
        else:
            yield MessageEntry(each)
