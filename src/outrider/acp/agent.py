"""The agent side of the protocol: one method for each request, and the open sessions."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from outrider.acp import schema
from outrider.acp.client import EditorClient
from outrider.acp.connection import Connection
from outrider.acp.handlers import Method
from outrider.acp.schema import PROTOCOL_VERSION, AuthMethod, AuthMethodTerminal, ClientCapabilities, Meta
from outrider.acp.updates.metrics import MetricsFile
from outrider.acp.writer import EditorWriter
from outrider.coding.system_prompt import USUAL_PROMPT, SystemPrompt
from outrider.errors import UnknownSessionError
from outrider.jsonrpc import RpcError
from outrider.preloading import preload
from outrider.processes.starting import python_module
from outrider.providers.debugging import logger
from outrider.version import __version__

if TYPE_CHECKING:
    from outrider.acp.turns import Turns
    from outrider.coding.permissions.question import Mode
    from outrider.log.log import Log


PAGE_SIZE = 50
"""Sessions in one response to `session/list`."""
_CAPABILITIES = schema.AgentCapabilities(
    load_session=True,
    prompt_capabilities=schema.PromptCapabilities(image=True, embedded_context=True),
    mcp_capabilities=schema.McpCapabilities(http=True, sse=True),
    session_capabilities={
        "list": {},
        "delete": {},
        "resume": {},
        "close": {},
        "additionalDirectories": {},
        "fork": {},  # not in the stable schema yet; clients look for it here
    },
)

FOR_SESSIONS = (
    "outrider.sync",
    "outrider.coding.config.loading",
    "outrider.acp.turns",
    "outrider.coding.mcp.server_files",
)
"""Modules that `session/new` needs."""


class EditorAgent:
    """Serves one editor. Modules that only a session needs are imported with the first session."""

    def __init__(self, writer: EditorWriter, flags: Mapping[str, Any], *, metrics: Path | None = None) -> None:
        self.connection = Connection(
            writer, self._requests(), {"session/cancel": Method(schema.SessionRequest, self._cancel)}
        )
        self._client = EditorClient(self.connection, writer)
        self._metrics_file = MetricsFile(metrics) if metrics else None
        self._flags = flags
        self._sessions: dict[str, Turns] = {}
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
            "initialize": Method(schema.InitializeRequest, self._initialize),
            "authenticate": Method(schema.AuthenticateRequest, self._authenticate),
            "logout": Method(schema.Empty, self._logout),
            "session/new": Method(schema.NewSessionRequest, self._new),
            "session/load": Method(schema.LoadSessionRequest, self._load),
            "session/resume": Method(schema.LoadSessionRequest, self._resume),
            "session/fork": Method(schema.LoadSessionRequest, self._fork),
            "session/list": Method(schema.ListSessionsRequest, self._list),
            "session/delete": Method(schema.SessionRequest, self._delete),
            "session/close": Method(schema.SessionRequest, self._close),
            "session/prompt": Method(schema.PromptRequest, self._prompt),
            "session/set_mode": Method(schema.SetSessionModeRequest, self._set_mode),
            "session/set_config_option": Method(schema.SetConfigOptionRequest, self._set_config_option),
        }

    # Initialization

    def _initialize(self, request: schema.InitializeRequest) -> schema.InitializeResponse:
        """Respond with the one version that is supported, whichever version the client offers."""
        self._client.initialize(request.client_capabilities, request.client_info)
        asyncio.get_running_loop().call_soon(preload, FOR_SESSIONS)  # after the response
        own = schema.Implementation("outrider", __version__, "Outrider")
        return schema.InitializeResponse(
            PROTOCOL_VERSION, _CAPABILITIES, own, auth_methods(request.client_capabilities)
        )

    def _authenticate(self, request: schema.AuthenticateRequest) -> schema.Empty:
        """Succeed if a key is there by now: it is entered in a terminal, never sent over this connection."""
        check_key_for(request.method_id)
        return schema.Empty()

    def _logout(self, _: schema.Empty) -> schema.Empty:
        return schema.Empty()

    # Sessions

    async def _new(self, request: schema.NewSessionRequest) -> schema.OpenSessionResponse:
        return self._open(request, None).open_response(with_id=True)

    async def _load(self, request: schema.LoadSessionRequest) -> schema.OpenSessionResponse:
        was_open = request.session_id in self._sessions
        turns = await self._open_again(request, replays=True)
        try:
            await turns.replay()
        except BaseException:
            if not was_open:  # close it, so that the client can try again
                await self._close_session(request.session_id)
            raise
        return turns.open_response(with_id=False)

    async def _resume(self, request: schema.LoadSessionRequest) -> schema.OpenSessionResponse:
        return (await self._open_again(request, replays=False)).open_response(with_id=False)

    async def _open_again(self, request: schema.LoadSessionRequest, *, replays: bool) -> Turns:
        """Return a stored session. One that is open here stays open, with its turn and its background commands.

        It is opened anew for another folder or other servers. While a turn runs, that is refused, and so is a replay:
        it would show again, as ended, the calls that still run.
        """
        turns = self._sessions.get(self._existing_id(request.session_id))
        if turns is None:
            return self._open(request, request.session_id)
        is_same = self._opened_with[request.session_id] == _identity(request)
        if turns.editor.turn and (replays or not is_same):
            raise RpcError.invalid_request("a turn of this session is running here: wait for its end, or cancel it")
        if is_same:
            return turns
        _check_folders(request)
        system_prompt_of(request.meta)
        await self._close_session(request.session_id)
        return self._open(request, request.session_id)

    async def _fork(self, request: schema.LoadSessionRequest) -> schema.OpenSessionResponse:
        _check_folders(request)
        system_prompt_of(request.meta)
        copy = self._log.fork(self._existing_id(request.session_id))
        if mode := self._mode(request.session_id):
            self._modes[copy] = mode
        return self._open(request, copy).open_response(with_id=True)

    def _list(self, request: schema.ListSessionsRequest) -> schema.ListSessionsResponse:
        start = _parse_cursor(request.cursor)
        from outrider.log.session_filter import CHATS

        where = msgspec.structs.replace(CHATS, folder=request.cwd or "")
        sessions = (
            schema.SessionInfo(summary.id, folder, summary.title, _timestamp(summary.updated))
            for summary in self._log.sessions(where=where)
            if (folder := summary.folder)
        )
        page = list(islice(sessions, start, start + PAGE_SIZE + 1))
        next_cursor = str(start + PAGE_SIZE) if len(page) > PAGE_SIZE else None
        return schema.ListSessionsResponse(page[:PAGE_SIZE], next_cursor)

    async def _delete(self, request: schema.SessionRequest) -> schema.Empty:
        await self._close_session(request.session_id)
        self._log.delete(self._existing_id(request.session_id))
        return schema.Empty()

    async def _close(self, request: schema.SessionRequest) -> schema.Empty:
        self._session(request.session_id)
        await self._close_session(request.session_id)
        return schema.Empty()

    async def _prompt(self, request: schema.PromptRequest) -> schema.PromptResponse:
        turns = self._session(request.session_id)
        try:
            return schema.PromptResponse(await turns.prompt(request.prompt))
        finally:
            if self._metrics_file:
                self._metrics_file.write(request.session_id)

    def _cancel(self, notification: schema.SessionRequest) -> None:
        if turns := self._sessions.get(notification.session_id):
            turns.cancel()

    def _set_mode(self, request: schema.SetSessionModeRequest) -> schema.Empty:
        from outrider.coding.permissions.question import parse_mode

        editor = self._session(request.session_id).editor
        mode = parse_mode(request.mode_id)
        if mode is None or mode not in editor.modes:
            raise RpcError.invalid_params(f"unknown mode {request.mode_id!r}, or not allowed on this machine")
        editor.set_mode(mode)
        return schema.Empty()

    def _set_config_option(self, request: schema.SetConfigOptionRequest) -> schema.SetConfigOptionResponse:
        from outrider.acp.editor_session import EFFORT, MODE, MODEL, parse_effort
        from outrider.coding.permissions.question import parse_mode

        editor, value = self._session(request.session_id).editor, request.value
        mode = parse_mode(str(value))
        if request.config_id == MODE and mode in editor.modes:
            editor.set_mode(mode)
        elif request.config_id == MODEL and isinstance(value, str):
            editor.set_model(value)
        elif request.config_id == EFFORT and (effort := parse_effort(str(value))):
            editor.set_effort(effort)
        else:
            raise RpcError.invalid_params(f"the option {request.config_id!r} cannot be {value!r}")
        return schema.SetConfigOptionResponse(editor.config_options)

    # Helpers

    @property
    def _log(self) -> Log:
        if self._opened_log is None:
            from outrider.sync import default_log

            self._opened_log = default_log()
        return self._opened_log

    def _existing_id(self, id: str) -> str:
        """Return the id if such a session is stored. Unlike the command line, a prefix is not enough."""
        if self._log.session(id).id != id:
            raise UnknownSessionError(f"there is no session {id!r}")
        return id

    def _session(self, id: str) -> Turns:
        if id not in self._sessions:
            raise RpcError.not_found(f"the session {id!r} is not open here: load it first")
        return self._sessions[id]

    def _open(self, request: schema.NewSessionRequest | schema.LoadSessionRequest, id: str | None) -> Turns:
        from outrider.acp.editor_session import SessionOpening, merged, servers_of
        from outrider.acp.turns import Turns
        from outrider.coding.config.loading import load
        from outrider.coding.consent.item import waiting_note
        from outrider.coding.mcp.server_files import find_servers
        from outrider.coding.tool_files import load_tools
        from outrider.runtime.agent_settings import kept_limits

        folder, system = _check_folders(request), system_prompt_of(request.meta)
        stored = kept_limits(self._log.settings(id)) if id else {}
        flags = {**stored, **self._flags}
        if request.additional_directories:
            flags["permissions.folders"] = list(request.additional_directories)
        loaded = load(folder, environment=os.environ, flags=flags)
        tools = load_tools(loaded.settings.tool_files)
        editors, unused = servers_of(request.mcp_servers, folder)
        found = find_servers(folder)
        servers = merged(editors, found.servers)
        opening = SessionOpening(loaded.settings, folder, tools, servers, id, self._mode(id), system)
        turns = Turns(self._client, self._log, opening)
        editor = turns.editor
        self._sessions[editor.id], self._opened_with[editor.id] = turns, _identity(request)
        if self._metrics_file:
            self._metrics_file.add_session(
                editor.id, lambda: {"client": self._client.name, **editor.engine.metrics.as_dict()}
            )
        waiting = waiting_note([*loaded.waiting, *found.waiting, *editor.bench.extensions.waiting])
        editor.notes += filter(None, (*loaded.notes, *editor.bench.notes, *unused, *found.notes, waiting))
        return turns

    def _mode(self, id: str | None) -> Mode | None:
        """Return the permission mode that the user has chosen for a session in this process, if there is one."""
        turns = self._sessions.get(id or "")
        return turns.editor.chosen_mode if turns else self._modes.get(id or "")

    async def _close_session(self, id: str) -> None:
        if turns := self._sessions.pop(id, None):
            if mode := turns.editor.chosen_mode:
                self._modes[id] = mode
            await turns.close()
            logger.debug("session %s: %s", id[:8], turns.editor.engine.metrics)
            if self._metrics_file:
                self._metrics_file.end_session(id)


def _parse_cursor(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.isdecimal() or len(cursor) > 9:
        raise RpcError.invalid_params("invalid cursor: leave it out to start from the first session")
    return int(cursor)


def _check_folders(request: schema.NewSessionRequest | schema.LoadSessionRequest) -> Path:
    """Return the folder to work in. Raises RpcError if it is not a folder, or if a path is not absolute."""
    folder = Path(request.cwd)
    with suppress(OSError):  # the name is too long for the file system
        if folder.is_absolute() and folder.is_dir():
            for extra in request.additional_directories:
                if not Path(extra).is_absolute():
                    raise RpcError.invalid_params(f"additionalDirectories must be absolute paths; {extra!r} is not")
            return folder
    raise RpcError.invalid_params(f"cwd must be the absolute path of a folder; {request.cwd[:200]!r} is not")


def _identity(request: schema.NewSessionRequest | schema.LoadSessionRequest) -> tuple[object, ...]:
    """Return what a request asks for, beside the session itself."""
    return request.cwd, request.mcp_servers, request.additional_directories, system_prompt_of(request.meta)


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


MAX_CHARACTERS = 100_000
_USAGE = '_meta.systemPrompt must be a text, or {"append": a text}'


def system_prompt_of(meta: Meta | None) -> SystemPrompt:
    """Return the system prompt in the `_meta` of a request. Raises RpcError if it cannot be used."""
    given = (meta or {}).get("systemPrompt")
    match given:
        case None:
            return USUAL_PROMPT
        case str():
            prompt = SystemPrompt(given)
        case {"append": str(appended)}:
            prompt = SystemPrompt(appended=appended)
        case _:
            raise RpcError.invalid_params(_USAGE)
    if len(prompt.replacement or prompt.appended) > MAX_CHARACTERS:
        raise RpcError.invalid_params(f"_meta.systemPrompt is longer than {MAX_CHARACTERS:,} characters")
    return prompt


PROVIDERS = {"anthropic": "Anthropic", "openai": "OpenAI", "gemini": "Gemini"}
"""The providers that are offered by name. `outrider login` knows more."""
_DESCRIPTION = "Enter the key in a terminal. It is checked and kept, where only you can read it."
LOGIN = AuthMethod(
    "outrider-login",
    "API key",
    "Run `outrider login PROVIDER` in a terminal, or set the provider's variable, such as ANTHROPIC_API_KEY.",
)


def auth_methods(client: ClientCapabilities) -> list[AuthMethod | AuthMethodTerminal]:
    """Return the methods that a client can handle. A terminal asks for the key, where the client can open one."""
    offered = {each: (f"{each}-key", f"{label} API key", _DESCRIPTION) for each, label in PROVIDERS.items()}
    if client.auth.terminal:  # the client starts the agent again with more arguments: outrider acp --login anthropic
        return [*(AuthMethodTerminal(*shown, ["--login", each]) for each, shown in offered.items()), LOGIN]
    if (client.meta or {}).get("terminal-auth") is True:  # the form before it was in the protocol
        return [*(AuthMethod(*shown, {"terminal-auth": _command(each)}) for each, shown in offered.items()), LOGIN]
    return [LOGIN]


def _command(provider: str) -> dict[str, Any]:
    program, *arguments = python_module("outrider", "login", provider)
    return {"label": "outrider login", "command": program, "args": arguments}


def check_key_for(method_id: str) -> None:
    """Raise RpcError if the method is unknown, or if there is no key by now."""
    known = [LOGIN.id, *(f"{provider}-key" for provider in PROVIDERS)]
    if method_id not in known:
        raise RpcError.invalid_params(f"unknown authentication method {method_id!r}; use {LOGIN.id!r}")
    from outrider.acp.editor_session import has_any_key  # imports the providers

    if not has_any_key():
        raise RpcError.auth_required(f"there is no API key yet. {LOGIN.description}")
