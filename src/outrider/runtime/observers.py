"""The observers of a session: each receives every event, and none can break the session."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec

from outrider.providers.debugging import logger
from outrider.runtime.events import Delta, Event, SubagentEvent

if TYPE_CHECKING:
    from outrider.runtime.session import Session

Observer: TypeAlias = Callable[[Event], None]


class SessionObserver(Protocol):
    """Observes many sessions, and keeps their events apart: each session gets an observer of its own."""

    def observe(self, session: Session) -> Observer:
        """Return the observer of this session."""
        ...


AnyObserver: TypeAlias = Observer | SessionObserver
"""What `observer=` takes: a function of an event, or an object that makes one for each session."""


class Inbox:
    """A queue of events for one reader."""

    def __init__(self) -> None:
        self._events: list[Event | None] = []
        self._waiting: asyncio.Future[None] | None = None

    def put(self, event: Event | None) -> None:
        """Add an event; None ends the stream."""
        self._events.append(event)
        if self._waiting and not self._waiting.done():
            self._waiting.set_result(None)

    async def __aiter__(self) -> AsyncIterator[Event]:
        while True:
            while not self._events:
                self._waiting = asyncio.get_running_loop().create_future()
                await self._waiting
            taken, self._events = self._events, []
            for event in taken:  # events that arrived together are yielded together
                if event is None:
                    return
                yield event


class Observers:
    """The observers of one session, in the order in which they were added."""

    def __init__(self) -> None:
        self._all: list[Observer] = [_log] if logger.isEnabledFor(logging.DEBUG) else []
        self._failed: list[Observer] = []

    def add(self, observer: Observer) -> None:
        """Add an observer."""
        self._all.append(observer)

    def remove(self, observer: Observer) -> None:
        """Remove an observer."""
        self._all.remove(observer)

    def emit(self, event: Event) -> None:
        """Send an event to every observer."""
        for observer in self._all:
            try:
                observer(event)
            except Exception:  # noqa: BLE001 - any failure is logged, and the session goes on
                if observer not in self._failed:  # logged once: a broken observer fails on every event
                    self._failed.append(observer)
                    logger.exception("an observer failed on %s; the session goes on", type(event).__name__)

    async def stream(self, run: Callable[[], Coroutine[Any, Any, object]]) -> AsyncGenerator[Event, None]:
        """Start a run and yield its events. Leaving early cancels the run."""
        inbox = Inbox()
        self.add(inbox.put)
        running = asyncio.ensure_future(run())
        running.add_done_callback(lambda _: inbox.put(None))
        try:
            async for event in inbox:
                yield event
            running.result()
        finally:
            running.cancel()
            try:
                await asyncio.wait([running])  # its outcome may have been raised above already
            finally:
                self.remove(inbox.put)


def _log(event: Event) -> None:
    if not isinstance(event.event if isinstance(event, SubagentEvent) else event, Delta):
        logger.debug("%s", msgspec.json.encode(event, enc_hook=repr).decode())
