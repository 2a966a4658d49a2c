"""The observers of a session: each receives every event, and none can break the session."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from typing import Any, TypeAlias

import msgspec

from outrider.providers.debugging import logger
from outrider.runtime.events import Delta, Event, PartialOutput, SubagentEvent
from outrider.runtime.exclusive_task import running_loop

Observer: TypeAlias = Callable[[Event], None]


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

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, observer: Observer) -> None:
        self._all.append(observer)

    def remove(self, observer: Observer) -> None:
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

    def stream(self, run: Callable[[], Coroutine[Any, Any, object]]) -> AsyncGenerator[Event, None]:
        """Start a run and yield its events. Leaving early cancels the run."""
        running: list[asyncio.Task[object]] = []
        events = self._stream(run, running)
        # `break` only drops the generator; the loop closes it some time after.
        weakref.finalize(events, _cancel_left, running).atexit = False
        return events

    async def _stream(
        self, run: Callable[[], Coroutine[Any, Any, object]], running: list[asyncio.Task[object]]
    ) -> AsyncGenerator[Event, None]:
        inbox = Inbox()
        self.add(inbox.put)
        task = asyncio.create_task(run())
        running.append(task)
        task.add_done_callback(lambda _: inbox.put(None))
        try:
            async for event in inbox:
                yield event
            task.result()
        finally:
            running.clear()
            if not task.cancelling():  # a second cancel would interrupt what the first one stores
                task.cancel()
            try:
                await asyncio.wait([task])  # its outcome may have been raised above already
            finally:
                self.remove(inbox.put)


def _cancel_left(running: list[asyncio.Task[object]]) -> None:
    """Cancel the run of a stream that was left early."""
    for task in running:
        if (loop := task.get_loop()) is running_loop():
            task.cancel()
        elif not loop.is_closed():
            loop.call_soon_threadsafe(task.cancel)


def _log(event: Event) -> None:
    if not isinstance(event.event if isinstance(event, SubagentEvent) else event, Delta | PartialOutput):
        logger.debug("%s", msgspec.json.encode(event, enc_hook=repr).decode())
