"""The agent side of the protocol: one method for each request, and the open sessions."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.acp.authentication import auth_methods, check_key_for
from outrider.acp.client import Client
from outrider.acp.connection import Connection, Method, RpcError
from outrider.acp.errors import as_rpc_error
from outrider.acp.metrics_file import MetricsFile
from outrider.acp.preloading import FOR_SESSIONS, preload
from outrider.acp.schema.base import PROTOCOL_VERSION
from outrider.acp.schema.requests import (
    AgentCapabilities,
    AuthenticateRequest,
    Empty,
    Implementation,
    InitializeRequest,
    InitializeResponse,
    ListSessionsRequest,
    ListSessionsResponse,
    LoadSessionRequest,
    McpCapabilities,
    NewSessionRequest,
    OpenSessionResponse,
    PromptCapabilities,
    PromptRequest,
    PromptResponse,
    SessionInfo,
    SessionRequest,
    SetConfigOptionRequest,
    SetConfigOptionResponse,
    SetSessionModeRequest,
)
from outrider.acp.system_prompt import system_prompt_of
from outrider.acp.writer import Writer
from outrider.errors import UnknownSessionError
from outrider.providers.debugging import logger
from outrider.version import __version__

if TYPE_CHECKING:
    from outrider.acp.editor_session import EditorSession
    from outrider.coding.permissions.question import Mode
    from outrider.log.log import Log
    from outrider.tools.tool import Tool

PAGE_SIZE = 50
"""Sessions in one response to `session/list`."""
_CAPABILITIES = AgentCapabilities(
    load_session=True,
    prompt_capabilities=PromptCapabilities(image=True, embedded_context=True),
    mcp_capabilities=McpCapabilities(http=True, sse=True),
    session_capabilities={
        "list": {},
        "delete": {},
        "resume": {},
        "close": {},
        "additionalDirectories": {},
        "fork": {},  # not in the stable schema yet; clients look for it here
    },
)


class EditorAgent:
    """Serves one editor. Modules that only a session needs are imported with the first session."""

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
        self._metrics_file = MetricsFile(metrics) if metrics else None
        self._flags = flags
        self._load_tools = load_tools
        self._sessions: dict[str, EditorSession] = {}
        self._opened_with: dict[str, tuple[object, ...]] = {}
        """What the request that opened each session asked for."""
        self._modes: dict[str, Mode] = {}
        """The permission modes that the user has chosen for sessions that were closed here."""
        self._opened_log: Log | None = None

    async def close(self) -> None:
        """Close every session, so that it can be opened again."""
        await asyncio.gather(*map(self._close_session, list(self._sessions)), return_exceptions=True)
        if self._metrics_file:
            await self._metrics_file.close()
        if self._opened_log:
            self._opened_log.close()

    def _requests(self) -> dict[str, Method]:
        return {
            "initialize": Method(InitializeRequest, self._initialize),
            "authenticate": Method(AuthenticateRequest, self._authenticate),
            "logout": Method(Empty, self._logout),
            "session/new": Method(NewSessionRequest, self._new),
            "session/load": Method(LoadSessionRequest, self._load),
            "session/resume": Method(LoadSessionRequest, self._resume),
            "session/fork": Method(LoadSessionRequest, self._fork),
            "session/list": Method(ListSessionsRequest, self._list),
            "session/delete": Method(SessionRequest, self._delete),
            "session/close": Method(SessionRequest, self._close),
            "session/prompt": Method(PromptRequest, self._prompt),
            "session/set_mode": Method(SetSessionModeRequest, self._set_mode),
            "session/set_config_option": Method(SetConfigOptionRequest, self._set_config_option),
        }

    def _notifications(self) -> dict[str, Method]:
        return {"session/cancel": Method(SessionRequest, self._cancel)}

    # Initialization

    def _initialize(self, request: InitializeRequest) -> InitializeResponse:
        """Respond with the one version that is supported, whichever version the client offers."""
        self._client.initialize(request.client_capabilities, request.client_info)
        asyncio.get_running_loop().call_soon(preload, FOR_SESSIONS)  # after the response
        own = Implementation("outrider", __version__, "Outrider")
        return InitializeResponse(PROTOCOL_VERSION, _CAPABILITIES, own, auth_methods(request.client_capabilities))

    def _authenticate(self, request: AuthenticateRequest) -> Empty:
        """Succeed if a key is there by now: it is entered in a terminal, never sent over this connection."""
        check_key_for(request.method_id)
        return Empty()

    def _logout(self, _: Empty) -> Empty:
        return Empty()

    # Sessions

    async def _new(self, request: NewSessionRequest) -> OpenSessionResponse:
        return self._open(request, None).open_response(with_id=True)

    async def _load(self, request: LoadSessionRequest) -> OpenSessionResponse:
        was_open = request.session_id in self._sessions
        session = await self._open_again(request, replays=True)
        try:
            await session.turns.replay()
        except BaseException:
            if not was_open:  # close it, so that the client can try again
                await self._close_session(session.id)
            raise
        return session.open_response(with_id=False)

    async def _resume(self, request: LoadSessionRequest) -> OpenSessionResponse:
        return (await self._open_again(request, replays=False)).open_response(with_id=False)

    async def _open_again(self, request: LoadSessionRequest, *, replays: bool) -> EditorSession:
        """Return a stored session. One that is open here stays open, with its turn and its background commands.

        It is opened anew for another folder or other servers. While a turn runs, that is refused, and so is a replay:
        it would show again, as ended, the calls that still run.
        """
        session = self._sessions.get(self._existing_id(request.session_id))
        if session is None:
            return self._open(request, request.session_id)
        is_same = self._opened_with[session.id] == _identity(request)
        if session.turns.is_busy and (replays or not is_same):
            raise RpcError.invalid_request("a turn of this session is running here: wait for its end, or cancel it")
        if is_same:
            return session
        _check_folders(request)
        system_prompt_of(request.meta)
        await self._close_session(session.id)
        return self._open(request, session.id)

    async def _fork(self, request: LoadSessionRequest) -> OpenSessionResponse:
        _check_folders(request)
        system_prompt_of(request.meta)
        copy = self._log.fork(self._existing_id(request.session_id))
        if mode := self._mode(request.session_id):
            self._modes[copy] = mode
        return self._open(request, copy).open_response(with_id=True)

    def _list(self, request: ListSessionsRequest) -> ListSessionsResponse:
        start = _parse_cursor(request.cursor)
        sessions = (
            SessionInfo(summary.id, folder, summary.title, _timestamp(summary.updated))
            for summary in self._log.sessions()
            if (folder := summary.folder) and request.cwd in (None, folder)
        )
        page = list(islice(sessions, start, start + PAGE_SIZE + 1))
        next_cursor = str(start + PAGE_SIZE) if len(page) > PAGE_SIZE else None
        return ListSessionsResponse(page[:PAGE_SIZE], next_cursor)

    async def _delete(self, request: SessionRequest) -> Empty:
        await self._close_session(request.session_id)
        session_id = self._existing_id(request.session_id)
        with as_rpc_error():
            self._log.delete(session_id)
        return Empty()

    async def _close(self, request: SessionRequest) -> Empty:
        self._session(request.session_id)
        await self._close_session(request.session_id)
        return Empty()

    async def _prompt(self, request: PromptRequest) -> PromptResponse:
        session = self._session(request.session_id)
        try:
            with as_rpc_error():
                return PromptResponse(await session.turns.prompt(request.prompt))
        finally:
            if self._metrics_file:
                self._metrics_file.write(session.id)

    def _cancel(self, notification: SessionRequest) -> None:
        if session := self._sessions.get(notification.session_id):
            session.turns.cancel()

    def _set_mode(self, request: SetSessionModeRequest) -> Empty:
        from outrider.coding.permissions.question import parse_mode

        session = self._session(request.session_id)
        mode = parse_mode(request.mode_id)
        if mode is None:
            raise RpcError.invalid_params(f"unknown mode {request.mode_id!r}")
        session.set_mode(mode)
        return Empty()

    def _set_config_option(self, request: SetConfigOptionRequest) -> SetConfigOptionResponse:
        from outrider.acp.options import EFFORT, MODE, MODEL, parse_effort
        from outrider.coding.permissions.question import parse_mode

        session, value = self._session(request.session_id), request.value
        mode = parse_mode(str(value))
        with as_rpc_error():
            if request.config_id == MODE and mode:
                session.set_mode(mode)
            elif request.config_id == MODEL and isinstance(value, str):
                session.set_model(value)
            elif request.config_id == EFFORT and (effort := parse_effort(str(value))):
                session.set_effort(effort)
            else:
                raise RpcError.invalid_params(f"the option {request.config_id!r} cannot be {value!r}")
        return SetConfigOptionResponse(session.config_options)

    # Helpers

    @property
    def _log(self) -> Log:
        if self._opened_log is None:
            from outrider.sync import default_log

            self._opened_log = default_log()
        return self._opened_log

    def _existing_id(self, id: str) -> str:
        """Return the id if such a session is stored. Unlike the command line, a prefix is not enough."""
        with as_rpc_error():
            if self._log.session(id).id != id:
                raise UnknownSessionError(f"there is no session {id!r}")
        return id

    def _session(self, id: str) -> EditorSession:
        if id not in self._sessions:
            raise RpcError.not_found(f"the session {id!r} is not open here: load it first")
        return self._sessions[id]

    def _open(self, request: NewSessionRequest | LoadSessionRequest, id: str | None) -> EditorSession:
        from outrider.acp.editor_session import EditorSession
        from outrider.acp.mcp_servers import merged, servers_of
        from outrider.coding.config.loading import load
        from outrider.coding.consent.item import waiting_note
        from outrider.coding.mcp.finding import find_servers
        from outrider.runtime.agent_settings import kept_limits

        folder, system = _check_folders(request), system_prompt_of(request.meta)
        with as_rpc_error():
            stored = kept_limits(self._log.settings(id)) if id else {}
            flags = {**stored, **self._flags} | _folder_flags(request.additional_directories)
            loaded = load(folder, environment=os.environ, flags=flags)
            tools = self._load_tools(loaded.settings.tool_files)
            editors, unused = servers_of(request.mcp_servers, folder)
            found = find_servers(folder)
            servers = merged(editors, found.servers)
            own = (self._client, self._log, loaded.settings, folder, tools, servers, id)
            session = EditorSession(*own, mode=self._mode(id), system=system)
        self._sessions[session.id], self._opened_with[session.id] = session, _identity(request)
        if self._metrics_file:
            self._metrics_file.add_session(
                session.id, lambda: {"client": self._client.name, **session.engine.metrics.as_dict()}
            )
        notes = [
            *loaded.notes,
            *session.bench.notes,
            *unused,
            *found.notes,
        ]
        waiting = waiting_note([*loaded.waiting, *found.waiting, *session.bench.extensions.waiting])
        notes += [waiting] if waiting else []
        session.notes += notes
        return session

    def _mode(self, id: str | None) -> Mode | None:
        """Return the permission mode that the user has chosen for a session in this process, if there is one."""
        session = self._sessions.get(id or "")
        return session.chosen_mode if session else self._modes.get(id or "")

    async def _close_session(self, id: str) -> None:
        if session := self._sessions.pop(id, None):
            if session.chosen_mode:
                self._modes[id] = session.chosen_mode
            await session.close()
            logger.debug("session %s: %s", session.id[:8], session.engine.metrics)
            if self._metrics_file:
                self._metrics_file.end_session(session.id)


def _parse_cursor(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.isdecimal() or len(cursor) > 9:
        raise RpcError.invalid_params("invalid cursor: leave it out to start from the first session")
    return int(cursor)


def _check_folders(request: NewSessionRequest | LoadSessionRequest) -> Path:
    """Return the folder to work in. Raises RpcError if it is not a folder, or if a path is not absolute."""
    folder = Path(request.cwd)
    with suppress(OSError):  # the name is too long for the file system
        if folder.is_absolute() and folder.is_dir():
            for extra in request.additional_directories:
                if not Path(extra).is_absolute():
                    raise RpcError.invalid_params(f"additionalDirectories must be absolute paths; {extra!r} is not")
            return folder
    raise RpcError.invalid_params(f"cwd must be the absolute path of a folder; {request.cwd[:200]!r} is not")


def _identity(request: NewSessionRequest | LoadSessionRequest) -> tuple[object, ...]:
    """Return what a request asks for, beside the session itself."""
    return request.cwd, request.mcp_servers, request.additional_directories, system_prompt_of(request.meta)


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _folder_flags(folders: Sequence[str]) -> dict[str, Any]:
    return {"permissions.folders": list(folders)} if folders else {}
