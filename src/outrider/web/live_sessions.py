"""The sessions that are open in this process, because someone talks to them over the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import TypeAlias
from weakref import WeakValueDictionary

from outrider.coding.permissions.question import Mode
from outrider.coding.remote.control import stop_agent
from outrider.errors import LogError, OutriderError
from outrider.log.log import Log
from outrider.log.questions import Say, SetGoal, Signal, Stop, check_signal
from outrider.log.session_filter import SessionFilter
from outrider.log.summary import Summary
from outrider.providers.debugging import logger
from outrider.runtime.budget import Spent, spent_today
from outrider.runtime.goal import as_goal
from outrider.web.api_requests import NewSession
from outrider.web.live_session import Json, LiveSession, ServerFront
from outrider.web.opener import SERVE, Opened, Opener

Tell: TypeAlias = Callable[[LiveSession], "asyncio.Future[None] | None"]
"""Tells something to a session that is open here. Returns a future that ends when a message is stored, if it is one."""
TAKE_SECONDS = 10.0
"""How long to wait until another process has a message. It looks twice a second."""
LOOK_SECONDS = 0.05


class LiveSessions:
    """Sends what someone says to the process that has the session open, or opens it here."""

    def __init__(self, log: Log, opener: Opener) -> None:
        self._log = log
        self._opener = opener
        self._open: dict[str, LiveSession] = {}
        self._changing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Held while a session is opened or released, so that no message is lost between both."""
        self._releasing: set[asyncio.Task[None]] = set()
        self.on_open: Callable[[str], None] = lambda _: None

    def get(self, id: str) -> LiveSession | None:
        return self._open.get(id)

    def working(self, owner: str) -> int:
        """Return how many sessions of an owner work here; of all owners for ""."""
        return sum(not owner or each.owner == owner for each in self._open.values() if not each.has_ended)

    async def say(self, id: str, text: str, mode: Mode | None = None) -> None:
        """Send a message. A session that no process has open works here until its turn ends.

        It returns when the message was taken. If a process ends before it takes it, the session works here.
        """
        await self._tell(id, Say(text), lambda live: live.say(text, mode))

    async def set_goal(self, id: str, command: str) -> None:
        """Set the goal of a session, which then works for it as after a message; "" ends the goal."""
        goal = as_goal(command) if command.strip() else ""
        await self._tell(id, SetGoal(goal), lambda live: live.set_goal(goal))

    async def _tell(self, id: str, said: Signal, tell: Tell) -> None:
        check_signal(said)
        while (number := await self._send(id, said, tell)) is not None:
            if await self._is_taken(number):
                return

    async def _send(self, id: str, said: Signal, tell: Tell) -> int | None:
        """Send a message. Return its number if it goes to another process."""
        async with self._lock(id):
            if (live := self._open.get(id)) is None:
                inbox = self._log.inbox
                summary = await asyncio.to_thread(self._log.session, id)
                if summary.holder is not None and await asyncio.to_thread(inbox.is_listening, id):
                    try:
                        return await asyncio.to_thread(inbox.send, id, said)
                    except LogError:
                        if await asyncio.to_thread(inbox.is_listening, id):
                            raise  # else it was closed just now
                live = await self._stored(summary)
            try:
                stored = tell(live)
            finally:
                if live.has_ended:  # it has nothing to do
                    self._release_soon(id, live)
        if stored:
            await stored
        return None

    async def _is_taken(self, number: int) -> bool:
        """Wait until a message was taken. Return False if the process that it was for has closed the session before."""
        deadline = asyncio.get_running_loop().time() + TAKE_SECONDS
        while (taken := await asyncio.to_thread(self._log.inbox.is_taken, number)) is False:
            is_late = asyncio.get_running_loop().time() > deadline
            if is_late and not await asyncio.to_thread(self._log.inbox.is_delivered, number):
                raise LogError("the program that has the session open does not respond; it may take the message later")
            await asyncio.sleep(LOOK_SECONDS)
        return taken is True

    async def begin(self, wanted: NewSession, *, id: str = "", is_page: bool = False) -> str:
        """Begin a session, and return its id when its first message, if it has one, is stored."""
        if wanted.text:
            check_signal(Say(wanted.text))
        front = ServerFront()
        live = self._add(await self._opener.new(wanted, id, front, is_page=is_page), front, wanted.owner)
        if wanted.text:
            await live.say(wanted.text)
        else:
            await self._release(live.session.id, live)
        return live.session.id

    async def talk(self, id: str, text: str) -> AsyncIterator[Json]:
        """Send a message to a session here, or let it go on if it is empty. Return the events from there on."""
        async with self._lock(id):
            live = self._open.get(id) or await self._stored(await asyncio.to_thread(self._log.session, id))
            events = live.events()
            if text or live.has_ended:
                stored = live.say(text)
        if text:
            await stored
        return events

    async def go_on(self, id: str) -> None:
        """Let a session work here that was killed, or has an answer. If a process has it open, it waits."""
        with suppress(OutriderError):
            root = await asyncio.to_thread(self._log.inbox.root_of, id)
            async with self._lock(root):
                if root not in self._open and await asyncio.to_thread(self._may_go_on, root):
                    (await self._stored(await asyncio.to_thread(self._log.session, root))).say("")

    def _may_go_on(self, id: str) -> bool:
        return not self._log.inbox.is_open(id) and self._opener.may_go_on(id)

    async def resume(self) -> None:
        """Let all sessions of the API go on that were killed or suspended, or have an answer by now."""
        for each in await asyncio.to_thread(self._unfinished):
            await self.go_on(each)

    def _unfinished(self) -> list[str]:
        answered = self._log.summaries(self._log.inbox.answered_sessions()).values()
        killed = self._log.sessions(where=SessionFilter(unfinished=True, origins=(SERVE,)))
        return [each.id for each in (*killed, *answered) if each.origin == SERVE]

    def spent_today(self, summary: Summary) -> list[Spent]:
        """Return what today has cost against the budgets of a session. Blocks."""
        found = spent_today(self._opener.budget(summary), self._log.spent, summary.folder, summary.owner)
        return list(found)

    async def cancel(self, id: str, agent: str = "") -> None:
        """Cancel the run of a session, or stop a sub-agent in its background, in whichever process it is."""
        if (live := self._open.get(id)) is None:
            await asyncio.to_thread(self._log.inbox.send, id, Stop(agent))
        elif agent:
            await stop_agent(live.session, agent)
        else:
            live.stop()

    async def close(self) -> None:
        """End what runs here, and release the sessions."""
        for id, live in list(self._open.items()):  # noqa: A001
            await live.leave()
            await self._release(id, live)
        if self._releasing:
            await asyncio.wait(self._releasing)

    # Opening and releasing

    def _lock(self, id: str) -> asyncio.Lock:
        lock = self._changing.get(id)
        if lock is None:
            lock = self._changing[id] = asyncio.Lock()
        return lock

    async def _stored(self, summary: Summary) -> LiveSession:
        front = ServerFront()
        opened = await self._opener.stored(summary, front)
        return self._add(opened, front, summary.owner, summary.last)

    def _add(self, opened: Opened, front: ServerFront, owner: str, last: int = 0) -> LiveSession:
        live = LiveSession(opened, front, owner, last)
        self._open[live.session.id] = live
        live.on_end = lambda: self._release_soon(live.session.id, live)
        self.on_open(live.session.id)
        return live

    def _release_soon(self, id: str, live: LiveSession) -> None:
        task = asyncio.get_running_loop().create_task(self._release(id, live))
        self._releasing.add(task)
        task.add_done_callback(self._releasing.discard)

    async def _release(self, id: str, live: LiveSession) -> None:
        async with self._lock(id):
            if self._open.get(id) is live and live.has_ended:
                del self._open[id]
                try:
                    await live.close()
                except OutriderError:
                    logger.debug("a session was not closed", exc_info=True)
