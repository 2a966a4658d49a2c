"""The agent that an editor talks to: each method of the protocol, and the sessions that are open."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.acp.client import Client
from outrider.acp.measures import Measures
from outrider.acp.refusals import as_wire_error
from outrider.acp.schema.base import PROTOCOL
from outrider.acp.schema.requests import (
    AgentCapabilities,
    Authenticate,
    ConfigOptions,
    Implementation,
    Initialize,
    Initialized,
    ListSessions,
    LoadSession,
    NewSession,
    Nothing,
    OfSession,
    Opened,
    Prompt,
    PromptCapabilities,
    Prompted,
    SessionInfo,
    Sessions,
    SetConfigOption,
    SetMode,
)
from outrider.acp.wire import Connection, Method, WireError
from outrider.acp.writer import Writer
from outrider.errors import UnknownSessionError
from outrider.providers.debugging import logger
from outrider.version import __version__

if TYPE_CHECKING:
    from outrider.acp.editor_session import EditorSession
    from outrider.log.log import Log
    from outrider.tools.tool import Tool

PAGE = 50
"""Sessions in one answer of a list."""
_CAPABILITIES = AgentCapabilities(
    load_session=True,
    prompt_capabilities=PromptCapabilities(image=True, embedded_context=True),
    session_capabilities={"list": {}, "delete": {}, "resume": {}, "close": {}, "additionalDirectories": {}},
    meta={"outrider": {"fork": True}},
)


class EditorAgent:
    """Answers one editor. What only a session needs is imported with the first one."""

    def __init__(
        self,
        writer: Writer,
        flags: Mapping[str, Any],
        load_tools: Callable[[Sequence[str]], Sequence[Tool]],
        *,
        metrics: Path | None = None,
    ) -> None:
        self.connection = Connection(writer, self._requests(), self._notifications())
        self._client = Client(self.connection, writer)
        self._measures = Measures(metrics) if metrics else None
        self._flags = flags
        self._load_tools = load_tools
        self._held: dict[str, EditorSession] = {}
        self._opened_log: Log | None = None

    async def close(self) -> None:
        """The editor is gone, or wants to be: every session ends as it should, and can be opened again."""
        await asyncio.gather(*map(self._close_held, list(self._held)), return_exceptions=True)
        if self._measures:
            await self._measures.close()
        if self._opened_log:
            self._opened_log.close()

    def _requests(self) -> dict[str, Method]:
        return {
            "initialize": Method(Initialize, self._initialize),
            "authenticate": Method(Authenticate, self._authenticate),
            "logout": Method(Nothing, self._logout),
            "session/new": Method(NewSession, self._new),
            "session/load": Method(LoadSession, self._load),
            "session/resume": Method(LoadSession, self._resume),
            "session/fork": Method(LoadSession, self._fork),
            "session/list": Method(ListSessions, self._list),
            "session/delete": Method(OfSession, self._delete),
            "session/close": Method(OfSession, self._close),
            "session/prompt": Method(Prompt, self._prompt),
            "session/set_mode": Method(SetMode, self._set_mode),
            "session/set_config_option": Method(SetConfigOption, self._set_config_option),
        }

    def _notifications(self) -> dict[str, Method]:
        return {"session/cancel": Method(OfSession, self._cancel)}

    # Who is there

    def _initialize(self, asked: Initialize) -> Initialized:
        """The version that both speak: the editor's if it is known here, else the newest of ours."""
        self._client.introduce(asked.client_capabilities, asked.client_info)
        return Initialized(PROTOCOL, _CAPABILITIES, Implementation("outrider", __version__, "Outrider"))

    def _authenticate(self, asked: Authenticate) -> Nothing:
        raise WireError.invalid_params(f"there is no way {asked.method_id!r} to authenticate: set a key, as for a chat")

    def _logout(self, _: Nothing) -> Nothing:
        return Nothing()

    # Sessions

    async def _new(self, asked: NewSession) -> Opened:
        held = self._open(asked, None)
        return held.opened(with_id=True)

    async def _load(self, asked: LoadSession) -> Opened:
        held = self._open(asked, self._id_of(asked.session_id))
        try:
            await held.replay()
        except BaseException:  # or nobody could try again
            await self._close_held(held.id)
            raise
        return held.opened(with_id=False)

    async def _resume(self, asked: LoadSession) -> Opened:
        return self._open(asked, self._id_of(asked.session_id)).opened(with_id=False)

    async def _fork(self, asked: LoadSession) -> Opened:
        _folder_of(asked)
        copy = self._log.fork(self._id_of(asked.session_id))
        return self._open(asked, copy).opened(with_id=True)

    def _list(self, asked: ListSessions) -> Sessions:
        start = _cursor(asked.cursor)
        found = (
            SessionInfo(summary.id, folder, summary.title, _time(summary.updated))
            for summary in self._log.sessions()
            if (folder := self._log.settings(summary.id).cwd or "") and asked.cwd in (None, folder)
        )
        page = list(islice(found, start, start + PAGE + 1))
        return Sessions(page[:PAGE], str(start + PAGE) if len(page) > PAGE else None)

    async def _delete(self, asked: OfSession) -> Nothing:
        await self._close_held(asked.session_id)
        name = self._id_of(asked.session_id)
        with as_wire_error():
            self._log.delete(name)
        return Nothing()

    async def _close(self, asked: OfSession) -> Nothing:
        self._of(asked.session_id)
        await self._close_held(asked.session_id)
        return Nothing()

    async def _prompt(self, asked: Prompt) -> Prompted:
        held = self._of(asked.session_id)
        try:
            with as_wire_error():
                return Prompted(await held.prompt(asked.prompt))
        finally:
            if self._measures:
                self._measures.write(held.id)

    def _cancel(self, asked: OfSession) -> None:
        if held := self._held.get(asked.session_id):
            held.cancel()

    def _set_mode(self, asked: SetMode) -> Nothing:
        from outrider.acp.options import as_mode

        held = self._of(asked.session_id)
        mode = as_mode(asked.mode_id)
        if mode is None:
            raise WireError.invalid_params(f"there is no mode {asked.mode_id!r}")
        held.use_mode(mode)
        return Nothing()

    def _set_config_option(self, asked: SetConfigOption) -> ConfigOptions:
        from outrider.acp.options import MODE, MODEL, as_mode, selectors

        held, value = self._of(asked.session_id), asked.value
        mode = as_mode(str(value))
        with as_wire_error():
            if asked.config_id == MODE and mode:
                held.use_mode(mode)
            elif asked.config_id == MODEL and isinstance(value, str):
                held.use_model(value)
            else:
                raise WireError.invalid_params(f"the option {asked.config_id!r} cannot be {value!r}")
        return ConfigOptions(selectors(held.mode, held.model))

    # How

    @property
    def _log(self) -> Log:
        if self._opened_log is None:
            from outrider.sync import default_log

            self._opened_log = default_log()
        return self._opened_log

    def _id_of(self, name: str) -> str:
        """The name itself, if there is a session of that name: the beginning of one is enough for people alone."""
        with as_wire_error():
            if self._log.session(name).id != name:
                raise UnknownSessionError(f"there is no session {name!r}")
        return name

    def _of(self, name: str) -> EditorSession:
        if name not in self._held:
            raise WireError.not_found(f"the session {name!r} is not open here: load it first")
        return self._held[name]

    def _open(self, asked: NewSession | LoadSession, id: str | None) -> EditorSession:
        from outrider.acp.editor_session import EditorSession
        from outrider.coding.config.loading import load
        from outrider.runtime.agent_settings import kept_limits

        if id in self._held:
            raise WireError.invalid_params(f"the session {id!r} is open here already: close it first")
        folder = _folder_of(asked)
        with as_wire_error():
            recorded = kept_limits(self._log.settings(id)) if id else {}
            flags = {**recorded, **self._flags} | _also(asked.additional_directories)
            loaded = load(folder, environment=os.environ, flags=flags)
            tools = self._load_tools(loaded.settings.tool_files)
            held = EditorSession(self._client, self._log, loaded.settings, folder, tools, id)
        self._held[held.id] = held
        if self._measures:
            self._measures.watch(held.id, lambda: {"client": self._client.name, **held.engine.metrics.as_dict()})
        notes = [*loaded.notes, *held.bench.notes, *_about_servers(asked.mcp_servers)]
        if loaded.waiting:
            notes.append(str(loaded.waiting))
        held.notes = notes
        return held

    async def _close_held(self, name: str) -> None:
        if held := self._held.pop(name, None):
            await held.close()
            logger.debug("session %s: %s", held.id[:8], held.engine.metrics)
            if self._measures:
                self._measures.end(held.id)


def _cursor(given: str | None) -> int:
    if given is None:
        return 0
    if not given.isdecimal() or len(given) > 9:
        raise WireError.invalid_params("this cursor is none of ours: leave it out to begin anew")
    return int(given)


def _folder_of(asked: NewSession | LoadSession) -> Path:
    """The folder to work in. Raises WireError if it is none, or another one that is named is not absolute."""
    folder = Path(asked.cwd)
    with suppress(OSError):  # a name that is too long for the system
        if folder.is_absolute() and folder.is_dir():
            for also in asked.additional_directories:
                if not Path(also).is_absolute():
                    raise WireError.invalid_params(f"additionalDirectories are absolute paths; {also!r} is none")
            return folder
    raise WireError.invalid_params(f"cwd must be a folder, by its absolute path; {asked.cwd[:200]!r} is not")


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _also(folders: Sequence[str]) -> dict[str, Any]:
    return {"permissions.folders": list(folders)} if folders else {}


def _about_servers(servers: Sequence[Mapping[str, Any]]) -> list[str]:
    """MCP servers cannot be used yet, and nobody should believe that they are."""
    if not servers:
        return []
    names = ", ".join(str(server.get("name", "without a name")) for server in servers)
    return [f"MCP servers are not supported yet, so these are not used: {names}."]
