"""The remote control of a session: other processes answer its questions, talk to it, stop it and watch it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from outrider.coding.remote.front import Front
from outrider.coding.remote.live import LiveSocket
from outrider.coding.remote.questions import RemoteQuestions
from outrider.errors import LogError
from outrider.log.inbox_tables import InboxView
from outrider.log.log import Log
from outrider.log.questions import Say, Signal
from outrider.runtime.events import Event, RunFinished
from outrider.runtime.exclusive_task import running_loop
from outrider.runtime.session import Session


class RemoteControl:
    """Serves the session that is open in a front end. It starts with the event loop."""

    def __init__(self, front: Front, folder: Path) -> None:
        self.questions = RemoteQuestions(front, folder)
        self._front = front
        self._open: tuple[Log, Session] | None = None
        """The session to serve, until it is served."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._live: LiveSocket | None = None
        self._stop_watching: Callable[[], None] | None = None
        self._taking: asyncio.Task[None] | None = None
        self._is_running = False

    def attach(self, log: Log, session: Session) -> None:
        """Serve a session from now on, instead of another; without an event loop, from its first run on."""
        self.detach()
        self._open = log, session
        self._is_running = False
        with suppress(RuntimeError):  # there is no event loop yet
            self._serve(asyncio.get_running_loop())

    def begin_run(self) -> None:
        """Serve the session, unless it is served already, and look often for messages until the run ends."""
        self._is_running = True
        self._serve(asyncio.get_running_loop())

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._open is None:
            return
        (log, session), self._open = self._open, None
        self._loop = loop
        self._live = LiveSocket(log.live_socket(session.id), session.id)
        self._live.start()  # first: a session that others know of can be watched
        try:
            inbox = log.inbox.listen(session.id)
        except LogError:  # the session works without it
            self._live.close()
            self._live = None
            return
        self.questions.inbox = inbox
        self._stop_watching = inbox.watch(self._look, lambda: self._is_running or self.questions.is_waiting)
        session.observe(self._observe)

    def detach(self) -> None:
        """Serve no session any more. Safe from any thread."""
        self._open = None
        loop, self._loop = self._loop, None
        if loop is None:
            return
        if not loop.is_running() or running_loop() is loop:
            self._end()
            return
        with suppress(RuntimeError):  # the loop has just ended
            loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        self.questions.inbox = None
        if self._stop_watching:
            self._stop_watching()
            self._stop_watching = None
        if self._live:
            self._live.close()
            self._live = None
        if self._taking:
            self._taking.cancel()

    def _observe(self, event: Event) -> None:
        if isinstance(event, RunFinished):
            self._is_running = False
        if self._live:
            self._live.send(event)

    def _look(self, view: InboxView) -> None:
        self.questions.look(view)
        is_taking = self._taking is not None and not self._taking.done()
        if self.questions.inbox and not is_taking and self.questions.inbox.has_signals(view):
            self._taking = asyncio.get_running_loop().create_task(self._take())

    async def _take(self) -> None:
        inbox = self.questions.inbox
        if inbox is None:
            return
        with suppress(LogError):  # the session was lost; its next write says so
            await inbox.take_signals(self._deliver)

    def _deliver(self, signal: Signal) -> None:
        if isinstance(signal, Say):
            self._front.say(signal.text)
        else:
            self._front.stop()
