"""Sessions that are open in this process, because someone talks to them on the page. The inbox has their questions."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from outrider.coding.config.loading import load
from outrider.coding.consent.item import waiting_note
from outrider.coding.front_end import FrontEnd
from outrider.coding.mcp.server_files import find_servers
from outrider.coding.permissions.question import Mode
from outrider.coding.tool_files import load_tools
from outrider.coding.toolbox import tools_of_programs
from outrider.coding.workbench import Workbench
from outrider.errors import ConversationError, LogError, OutriderError
from outrider.log.log import Log
from outrider.log.questions import Say, Stop, check_signal
from outrider.log.session_filter import SessionFilter
from outrider.providers.debugging import logger
from outrider.runtime.agent_settings import cwd_of, kept_limits
from outrider.runtime.agent_spec import AgentSpec
from outrider.runtime.hooks import HookResult, SessionStart
from outrider.runtime.session import Session
from outrider.web.page_questions import PLACE

TAKE_SECONDS = 10.0
"""How long to wait until another process has a message. It looks twice a second."""
LOOK_SECONDS = 0.05


class PageSessions:
    """Sends what someone says on the page to the process that has the session open, or opens it here."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._open: dict[str, PageSession] = {}
        self._changing = asyncio.Lock()
        """Held while a session is opened or released, so that no message is lost between both."""

    async def say(self, id: str, said: Say) -> None:
        """Send a message. A session that no process has open works here until its turn ends.

        It returns when the message was taken. If a process ends before it takes it, the session works here.
        """
        check_signal(said)
        session = (await asyncio.to_thread(self._log.session, id)).id
        while (number := await self._send(session, said)) is not None:
            if await self._is_taken(number):
                return

    async def go_on(self, id: str) -> None:
        """Let a session with an answer work here. If a process has it open, or its tools are others', it waits."""
        async with self._changing:
            with suppress(OutriderError):
                session = await asyncio.to_thread(self._log.inbox.root_of, id)
                if session not in self._open and not await asyncio.to_thread(self._is_others, session):
                    await self._begin(session, "")

    def _is_others(self, id: str) -> bool:
        return self._log.inbox.is_open(id) or bool(tools_of_programs(self._log.settings(id).tools or ()))

    async def _send(self, session: str, said: Say) -> int | None:
        """Send a message. Return its number if it goes to another process."""
        async with self._changing:
            if talk := self._open.get(session):
                talk.say(said.text)
                return None
            inbox = self._log.inbox
            if await asyncio.to_thread(inbox.is_listening, session):
                try:
                    return await asyncio.to_thread(inbox.send, session, said)
                except LogError:
                    if await asyncio.to_thread(inbox.is_listening, session):
                        raise  # else it was closed just now
            await self._begin(session, said.text)
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

    async def begin(self, folder: str, said: Say) -> str:
        """Begin a session in a folder that the log knows, with the settings of a chat there. Return its id."""
        check_signal(said)
        async with self._changing:
            front = PageFront()
            bench = await asyncio.to_thread(_known_folder_bench, self._log, folder, front)
            return self._start(bench, None, front, said.text)

    async def _begin(self, id: str, text: str) -> None:
        front = PageFront()
        bench = await asyncio.to_thread(_session_bench, self._log, id, front)
        self._start(bench, id, front, text)

    def _start(self, bench: Workbench, id: str | None, front: PageFront, text: str) -> str:
        """Open a session, or a new one without an id, and let it work. Return its id."""
        try:
            session = bench.open(self._log, id)
            if front.waiting:
                session.agent = _telling(session.agent, front.waiting)
            if id is not None:
                bench.restore_mode(self._log, id)
            talk = PageSession(bench, session, front, text)
        except BaseException:
            bench.close()
            raise
        self._open[session.id] = talk
        talk.on_end = lambda: asyncio.ensure_future(self._release(session.id, talk))
        return session.id

    async def _release(self, id: str, talk: PageSession) -> None:
        async with self._changing:
            if self._open.get(id) is talk and talk.has_ended:
                del self._open[id]
                await talk.close()

    async def stop(self, id: str) -> None:
        """Cancel the run of a session, in whichever process it is."""
        if talk := self._open.get(id):
            talk.stop()
        else:
            await asyncio.to_thread(self._log.inbox.send, id, Stop())

    async def close(self, _: object = None) -> None:
        """Cancel what runs here, and release the sessions."""
        for id, talk in list(self._open.items()):  # noqa: A001
            talk.keep_question()
            talk.stop()
            await asyncio.wait([talk.task])
            await self._release(id, talk)


class PageSession:
    """One session that works in this process until nothing more was said to it."""

    def __init__(self, bench: Workbench, session: Session, front: PageFront, text: str) -> None:
        self._bench = bench
        self._session = session
        self._said = deque([text])
        self._has_more = asyncio.Event()
        self._passing_on = asyncio.Lock()
        front.talk = self
        self.on_end: Callable[[], object] = lambda: None
        """Called whenever it has nothing more to do. What is said afterwards lets it work again."""
        self._begin()

    @property
    def has_ended(self) -> bool:
        """Whether it works no more."""
        return self.task.done()

    def say(self, text: str) -> None:
        """Send a message: the run that goes on takes it, or another one follows."""
        self._said.append(text)
        self._has_more.set()
        if self.task.done():
            self._begin()

    def _begin(self) -> None:
        self.task = asyncio.get_running_loop().create_task(self._work())
        self.task.add_done_callback(lambda _: self.on_end())

    def stop(self) -> None:
        """Cancel the run."""
        self._said.clear()
        self._session.cancel()

    def keep_question(self) -> None:
        """Leave a question open that waits, because the page ends."""
        self._bench.keep_question(self._session)

    def use_mode(self, mode: Mode) -> None:
        """Change the permission mode."""
        self._bench.use_mode(mode, self._session)

    async def close(self) -> None:
        """Release the session, so that other programs can open it."""
        await self._session.aclose()
        await asyncio.to_thread(self._bench.close)

    async def _work(self) -> None:
        while self._said:
            run = asyncio.ensure_future(self._session.run(self._said.popleft()))
            steering = asyncio.ensure_future(self._steer())
            try:
                await run
            except OutriderError:
                logger.debug("a run on the web page failed", exc_info=True)
            finally:
                async with self._passing_on:  # what is being passed on is not lost
                    steering.cancel()

    async def _steer(self) -> None:
        """Pass on what is said while a run goes on. What comes too late begins the next run."""
        while True:
            self._has_more.clear()
            await self._has_more.wait()
            async with self._passing_on:
                await self._pass_on()

    async def _pass_on(self) -> None:
        while self._said:
            text = self._said.popleft()
            try:
                await self._session.steer(text)
            except ConversationError:
                self._said.appendleft(text)
                break
            except OutriderError:  # such as a hook that blocks it
                logger.debug("a message on the web page was refused", exc_info=True)


class PageFront:
    """The front end of a session on the page: it has no dialogue of its own, the inbox asks. Implements `Front`."""

    place = PLACE

    def __init__(self) -> None:
        self.talk: PageSession | None = None
        self.waiting = ""
        """What the project wants and the user has not agreed to, in a sentence."""

    def answered(self, text: str) -> None:
        """The page shows answers as it shows those of all sessions."""

    def use_mode(self, mode: Mode) -> None:
        """Change the permission mode."""
        if self.talk:
            self.talk.use_mode(mode)

    async def say(self, text: str) -> None:
        """Send a message of another process."""
        if self.talk:
            self.talk.say(text)
            await asyncio.wait([self.talk.task])

    def stop(self) -> None:
        """Cancel the run."""
        if self.talk:
            self.talk.stop()


def _session_bench(log: Log, id: str, front: PageFront) -> Workbench:
    """Return the workbench of a session in its folder, with the settings that a chat there has."""
    recorded = log.settings(id)
    if log.session(id).parent:
        raise LogError("this is the session of a sub-agent; talk to the session that started it")
    folder = cwd_of(recorded)
    if not recorded.cwd:
        raise LogError(
            "this session was imported, or written elsewhere, so its folder is not used; continue it once in a folder "
            f"of yours: outrider --resume {id[:8]}"
        )
    if folder is None:
        raise LogError(f"the folder of this session, {recorded.cwd}, does not exist on this machine")
    return _bench(Path(folder), front, kept_limits(recorded))


def _known_folder_bench(log: Log, folder: str, front: PageFront) -> Workbench:
    """Return the workbench of a new session, in a folder that the user has worked in: the page must not open others."""
    known = log.sessions(where=SessionFilter(folder=folder))
    if not folder or not any(log.settings(each.id).cwd == folder for each in known):
        raise LogError(f"no session was in {folder} yet; begin the first one there with `outrider`")
    if not Path(folder).is_dir():
        raise LogError(f"the folder {folder} does not exist on this machine")
    return _bench(Path(folder), front, {})


def _bench(folder: Path, front: PageFront, flags: Mapping[str, Any]) -> Workbench:
    loaded = load(folder, environment=os.environ, flags=flags)
    found = find_servers(folder)
    bench = Workbench(
        loaded.settings,
        folder,
        tools=load_tools(loaded.settings.tool_files),
        servers=found.servers,
        front_end=FrontEnd(_wait_for_inbox, _wait_for_inbox, remote=front, choose=_wait_for_inbox, origin="chat"),
    )
    front.waiting = waiting_note([*loaded.waiting, *found.waiting, *bench.extensions.waiting])
    return bench


def _telling(agent: AgentSpec, note: str) -> AgentSpec:
    """Return the agent with a hook that tells the page something when the session begins."""

    async def tell(_: SessionStart) -> HookResult:
        return HookResult(note=note)

    hooks = msgspec.structs.replace(agent.hooks, session_start=(*agent.hooks.session_start, tell))
    return agent.replace(hooks=hooks)


async def _wait_for_inbox(*_: object) -> Any:
    """Wait until the question is answered in the inbox, which cancels this."""
    return await asyncio.get_running_loop().create_future()
