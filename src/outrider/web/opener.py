"""How a server opens sessions: those of the coding agent in their folders, or all with the agent of an app."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import msgspec

from outrider.coding.config.loading import load
from outrider.coding.consent.item import waiting_note
from outrider.coding.front_end import Front, FrontEnd
from outrider.coding.mcp.server_files import find_servers
from outrider.coding.tool_files import load_tools
from outrider.coding.toolbox import tools_of_programs
from outrider.coding.workbench import Workbench
from outrider.errors import LogError
from outrider.log.log import Log
from outrider.log.session_filter import Origin, SessionFilter, labels
from outrider.log.session_id import shown_id
from outrider.log.summary import Summary
from outrider.runtime.agent_settings import cwd_of, kept_limits
from outrider.runtime.agent_spec import AgentSpec
from outrider.runtime.budget import Budget
from outrider.runtime.hooks import HookResult, SessionStart
from outrider.runtime.session import Session
from outrider.tools.approval import Approver
from outrider.web.api_requests import NewSession

SERVE: Origin = "serve"
AgentOf: TypeAlias = AgentSpec[Any] | Callable[[str], AgentSpec[Any]]
"""An agent, or what returns that of an owner."""


class Opened(msgspec.Struct, frozen=True):
    """An open session, and the workbench of a coding session."""

    session: Session[Any]
    bench: Workbench | None = None
    origin: str = SERVE

    async def aclose(self) -> None:
        """Release it, so that other programs can open it."""
        await self.session.aclose()
        if self.bench:
            await asyncio.to_thread(self.bench.close)


class Opener(Protocol):
    """Opens sessions."""

    async def new(self, wanted: NewSession, id: str, front: Front, *, is_page: bool) -> Opened:
        """Open a new session, with an id or a random one. Raises OutriderError."""
        ...

    async def stored(self, summary: Summary, front: Front) -> Opened:
        """Open a session of the log. Raises OutriderError."""
        ...

    def may_go_on(self, id: str) -> bool:
        """Return whether a session has the same tools here as where it worked before."""
        ...

    def budget(self, summary: Summary) -> Budget:
        """Return the budget of a session. Blocks. Raises OutriderError."""
        ...


class AgentOpener:
    """Opens all sessions with one agent, or with that of their owner."""

    def __init__(self, log: Log, agent: AgentOf, approve: Approver | None = None) -> None:
        self._log, self._agent, self._approve = log, agent, approve

    def _agent_of(self, owner: str) -> AgentSpec[Any]:
        return self._agent if isinstance(self._agent, AgentSpec) else self._agent(owner)

    async def new(self, wanted: NewSession, id: str, front: Front, *, is_page: bool) -> Opened:
        if wanted.folder or wanted.model or wanted.mode:
            raise LogError("this server has an agent of its own; leave folder, model and mode out")
        agent = self._agent_of(wanted.owner)
        opening = Session.open(
            *(self._log, id or None, agent),
            create=bool(id),
            approve=self._approve,
            origin=SERVE,
            owner=wanted.owner,
            metadata=wanted.metadata,
        )
        return Opened(await opening)

    async def stored(self, summary: Summary, front: Front) -> Opened:
        return Opened(await Session.open(self._log, summary.id, self._agent_of(summary.owner), approve=self._approve))

    def may_go_on(self, id: str) -> bool:
        """Return True: the agent has its tools everywhere."""
        return True

    def budget(self, summary: Summary) -> Budget:
        return self._agent_of(summary.owner).budget


class CodingOpener:
    """Opens sessions of the coding agent, with the settings of a chat in their folders."""

    def __init__(self, log: Log) -> None:
        self._log = log

    async def new(self, wanted: NewSession, id: str, front: Front, *, is_page: bool) -> Opened:
        """Open a new session. The page begins sessions only in folders that had one."""
        make = _known_folder_bench if is_page else _folder_bench
        bench, note = await asyncio.to_thread(make, self._log, wanted.folder, front)
        origin = "chat" if is_page else SERVE
        opened = self._open(bench, id or None, note, origin, wanted.model or None)
        with _closing(bench):
            if wanted.owner or wanted.metadata:
                labels(wanted.owner, wanted.metadata)
                opened.session.annotate(owner=wanted.owner, metadata=wanted.metadata)
            if wanted.mode:
                bench.use_mode(wanted.mode, opened.session)
        return opened

    async def stored(self, summary: Summary, front: Front) -> Opened:
        origin: Origin = SERVE if summary.origin == SERVE else "chat"
        bench, note = await asyncio.to_thread(_session_bench, self._log, summary, front, origin)
        opened = self._open(bench, summary.id, note, origin)
        with _closing(bench):
            bench.restore_mode(self._log, summary.id)
        return opened

    def _open(self, bench: Workbench, id: str | None, note: str, origin: str, model: str | None = None) -> Opened:
        with _closing(bench):
            session = bench.open(self._log, id, model=model, create=id is not None)
            if note:
                session.agent = _telling(session.agent, note)
        return Opened(session, bench, origin)

    def may_go_on(self, id: str) -> bool:
        """Return whether no tool of the session is a program's own."""
        return not tools_of_programs(self._log.settings(id).tools or ())

    def budget(self, summary: Summary) -> Budget:
        """Return that of the folder's settings; the user's own if the folder is not here."""
        folder = cwd_of(self._log.settings(summary.id))
        return load(Path(folder or Path.home()), environment=os.environ).settings.budget


@contextmanager
def _closing(bench: Workbench) -> Iterator[None]:
    """Close a workbench if what follows fails."""
    try:
        yield
    except BaseException:
        bench.close()
        raise


def _session_bench(log: Log, summary: Summary, front: Front, origin: Origin) -> tuple[Workbench, str]:
    """Return the workbench of a session in its folder, with the settings that a chat there has, and a note."""
    recorded = log.settings(summary.id)
    if summary.parent:
        raise LogError("this is the session of a sub-agent; talk to the session that started it")
    folder = cwd_of(recorded)
    if not recorded.cwd:
        raise LogError(
            "this session was imported, or written elsewhere, so its folder is not used; continue it once in a folder "
            f"of yours: outrider --resume {shown_id(summary.id)}"
        )
    if folder is None:
        raise LogError(f"the folder of this session, {recorded.cwd}, does not exist on this machine")
    return _bench(Path(folder), front, kept_limits(recorded), origin)


def _known_folder_bench(log: Log, folder: str, front: Front) -> tuple[Workbench, str]:
    """Return the workbench of a new session, in a folder that the user has worked in: the page must not open others."""
    known = log.sessions(where=SessionFilter(folder=folder))
    if not folder or not any(log.settings(each.id).cwd == folder for each in known):
        raise LogError(f"no session was in {folder} yet; begin the first one there with `outrider`")
    return _folder_bench(log, folder, front, "chat")


def _folder_bench(log: Log, folder: str, front: Front, origin: Origin = SERVE) -> tuple[Workbench, str]:
    if not folder or not Path(folder).is_absolute():
        raise LogError("name the folder of the session, with its whole path")
    if not Path(folder).is_dir():
        raise LogError(f"the folder {folder} does not exist on this machine")
    return _bench(Path(folder), front, {}, origin)


def _bench(folder: Path, front: Front, flags: Mapping[str, Any], origin: Origin) -> tuple[Workbench, str]:
    loaded = load(folder, environment=os.environ, flags=flags)
    found = find_servers(folder)
    bench = Workbench(
        loaded.settings,
        folder,
        tools=load_tools(loaded.settings.tool_files),
        servers=found.servers,
        front_end=FrontEnd(_wait_for_inbox, _wait_for_inbox, remote=front, choose=_wait_for_inbox, origin=origin),
    )
    return bench, waiting_note([*loaded.waiting, *found.waiting, *bench.extensions.waiting])


def _telling(agent: AgentSpec, note: str) -> AgentSpec:
    """Return the agent with a hook that tells the user something when the session begins."""

    async def tell(_: SessionStart) -> HookResult:
        return HookResult(note=note)

    hooks = msgspec.structs.replace(agent.hooks, session_start=(*agent.hooks.session_start, tell))
    return agent.replace(hooks=hooks)


async def _wait_for_inbox(*_: object) -> Any:
    """Wait until the question is answered in the inbox, which cancels this."""
    return await asyncio.get_running_loop().create_future()
