"""A session that is open in an editor: connects a workbench and its conversation to the client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from outrider.acp.choice_requests import ChoiceRequester
from outrider.acp.client import EditorClient
from outrider.acp.content import to_session_update
from outrider.acp.editor_tools import EditorBuffers, EditorTerminals
from outrider.acp.event_translator import EventTranslator
from outrider.acp.permission_requests import PermissionRequester
from outrider.acp.schema import (
    ConfigOption,
    ConfigOptionUpdate,
    ConfigOptionValue,
    CurrentModeUpdate,
    SessionMode,
    SessionModeState,
    StopReason,
)
from outrider.acp.tool_calls import fenced
from outrider.acp.update_sender import UpdateSender
from outrider.acp.updates.call_state import Update
from outrider.acp.updates.engine import Engine
from outrider.acp.updates.pacer import Delivery, UpdateTarget
from outrider.coding.config.settings import AcpSettings, Settings
from outrider.coding.front_end import Front, FrontEnd
from outrider.coding.permissions.question import MODE_WORDS, Mode, Question, modes_within
from outrider.coding.system_prompt import USUAL_PROMPT, SystemPrompt
from outrider.coding.workbench import Workbench
from outrider.conversation.messages import AttachmentBlock, ToolUseBlock
from outrider.errors import ConfigError, LogError, SessionBusyError
from outrider.log.log import Log
from outrider.mcp.servers import HttpServer, McpServer, StdioServer, tool_prefix
from outrider.providers.base import EFFORT_CHOICES, EffortChoice
from outrider.providers.catalogue import tiers
from outrider.providers.catalogue.efforts import check_effort, levels_for
from outrider.providers.catalogue.windows import window_of
from outrider.providers.credentials import keys
from outrider.providers.credentials.keys import stored_values
from outrider.runtime.session import Session
from outrider.tools.tool import Tool


def servers_of(given: Sequence[Mapping[str, Any]], folder: Path) -> tuple[list[McpServer], list[str]]:
    """Return the servers, and a note for each that cannot be used. The user has configured them in the editor."""
    servers: dict[str, McpServer] = {}
    notes: list[str] = []
    for each in given:
        name = each.get("name")
        shown = str(name)[:60] if name else "unnamed"
        try:
            server = _server(each, str(name or ""), folder)
            if servers.setdefault(tool_prefix(server.name), server) is not server:
                raise ConfigError("another server has this name")
        except ConfigError as error:
            notes.append(f"The MCP server {shown} is not used: {error}")
    return list(servers.values()), notes


def merged(editors: Sequence[McpServer], found: Sequence[McpServer]) -> list[McpServer]:
    """Return the editor's servers and those of files. An editor's server replaces one of the same name."""
    names = {tool_prefix(server.name) for server in editors}
    return [*editors, *(server for server in found if tool_prefix(server.name) not in names)]


def _server(given: Mapping[str, Any], name: str, folder: Path) -> McpServer:
    kind = given.get("type", "stdio")
    if kind == "stdio":
        args = given.get("args") or []
        if not isinstance(given.get("command"), str) or not _are_texts(args):
            raise ConfigError("command must be a text, and args a list of texts")
        return StdioServer(name, given["command"], tuple(args), _pairs(given.get("env") or [], "env"), folder)
    if kind in ("http", "sse"):  # the client finds out which of the two it is
        if not isinstance(given.get("url"), str):
            raise ConfigError("url must be a text")
        return HttpServer(name, given["url"], _pairs(given.get("headers") or [], "headers"))
    raise ConfigError(f"its type is {str(kind)[:40]!r}; stdio, http and sse are supported")


def _are_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)


def _pairs(given: Any, field: str) -> dict[str, str]:
    """Return variables or headers, which the protocol has as a list of names and values."""
    try:
        pairs = {each["name"]: each["value"] for each in given}
    except (TypeError, KeyError):
        raise ConfigError(f"{field} must be a list of objects with a name and a value") from None
    if not _are_texts([*pairs, *pairs.values()]):
        raise ConfigError(f"{field} must have texts as names and values")
    return pairs


MODE, MODEL, EFFORT = "mode", "model", "effort"
DEFAULT_EFFORT = "default"


def parse_effort(name: str) -> EffortChoice | None:
    return next((effort for effort in EFFORT_CHOICES if effort == name), None)


def has_any_key() -> bool:
    """Return whether the user has a key: in the environment, or stored by `outrider login`."""
    return len(known_models()) > 1 or bool(stored_values())


def known_models() -> list[str]:
    """Return the tiers of the providers that have a key, and the demo model."""
    with_key = filter(keys.has_key, tiers.ORDER)
    return [*(f"{prefix}/{tier}" for prefix in with_key for tier in tiers.models_of(prefix)), "demo"]


class SessionOpening(msgspec.Struct, frozen=True):
    """What a session is opened with."""

    settings: Settings
    folder: Path
    tools: Sequence[Tool]
    servers: Sequence[McpServer] = ()
    id: str | None = None
    """The stored session; None for a new one."""
    mode: Mode | None = None
    """The permission mode that the user has chosen for it in this process, if there is one."""
    system: SystemPrompt = USUAL_PROMPT


class EditorSession:
    """One session: its workbench, its conversation, and what the editor has been sent of it."""

    def __init__(self, client: EditorClient, log: Log, opening: SessionOpening, remote: Front) -> None:
        self.client = client
        self.log = log
        self.turn: asyncio.Future[StopReason] | None = None
        """The turn that goes on, if one does."""
        self.bench = Workbench(
            opening.settings,
            opening.folder,
            tools=opening.tools,
            servers=opening.servers,
            front_end=self._front_end(opening, remote),
            system_prompt=opening.system,
        )
        self.session: Session = self.bench.open(log, opening.id, titled=True)
        self.id = self.session.id
        self.sender = UpdateSender(client, self.id, self._read_attachment, self._context_usage)
        self.sender.has_sent_title = self.session.history.last is not None
        self.engine = self._new_engine(opening.settings.acp)
        self.translator = EventTranslator(self.engine, self.sender, self.bench.folder, appends=client.appends_output)
        self.session.observe(self.translator.handle)
        self._use_editor()
        self.notes: list[str] = [log.warning] if log.warning else []
        """Notices to send right after the session was opened."""
        self._restore_mode(opening.mode)

    def _front_end(self, opening: SessionOpening, remote: Front) -> FrontEnd:
        """Return what the workbench uses of the editor: its dialogues and notices."""
        self.requester = PermissionRequester(self, opening.folder, self._read_attachment, self._tool_call_id)
        choose = ChoiceRequester(self, lambda call_id: self.translator.calls.tool_call_id(call_id))
        if not opening.servers:
            return FrontEnd(self.requester, remote=remote, choose=choose, origin="editor")
        from outrider.acp.elicitation_requests import ElicitationRequester  # imports MCP

        elicit = ElicitationRequester(self, lambda text: self.sender.send_notice(text))
        return FrontEnd(self.requester, elicit, self._server_notices(), remote, choose, origin="editor")

    def _new_engine(self, settings: AcpSettings) -> Engine:
        client = self.client

        def send(update: Update) -> int:
            return self.sender.send(to_session_update(update, self._read_attachment, client.output_key))

        # Only `*` matches an editor that sends no name.
        full = any(each in settings.full_updates for each in ("*", client.name))
        how = Delivery(client.appends_output, full, interval=settings.update_interval, format_output=fenced)
        return Engine(UpdateTarget(send, client), how)

    def _restore_mode(self, chosen: Mode | None) -> None:
        """Use the mode that was chosen in this process; else the stored one."""
        self.chosen_mode = chosen
        if chosen:
            self.bench.permissions.mode = chosen
        elif note := self.bench.restore_mode(self.log, self.id):
            self.notes.append(note)

    def _server_notices(self) -> Callable[[str], None]:
        """Return a function that sends what happens to MCP servers at once, also between turns."""
        loop = asyncio.get_running_loop()

        def send(text: str) -> None:
            with suppress(RuntimeError):  # the agent has ended
                loop.call_soon_threadsafe(lambda: self.sender.send_notice(text))

        return send

    def _tool_call_id(self, question: Question) -> str:
        """Return the id by which the editor knows a call. One from before the session was loaded is shown again.

        A question of a tool that attaches a file is about no call, and neither is one about web search: "".
        """
        if question.asker:
            known = self.translator.subagents.tool_call_id(question.call_id)
            state = self.engine.state(known)
            return known if state and (state.status, state.name) == ("pending", question.tool) else ""
        self.translator.calls.announce(ToolUseBlock(question.call_id, question.tool, question.input))
        return self.translator.calls.tool_call_id(question.call_id)

    def _use_editor(self) -> None:
        """Let the tools use the editor's files and terminals, as far as the client offers them."""
        offered = self.client.capabilities
        if offered.fs.read_text_file or offered.fs.write_text_file:
            self.bench.workspace.buffers = EditorBuffers(self.client, self.id)
        if offered.terminal:
            self.bench.workspace.terminals = EditorTerminals(self.client, self.id)

    # State

    @property
    def model(self) -> str:
        model = self.session.agent.model
        return model if isinstance(model, str) else model.name

    @property
    def mode(self) -> Mode:
        return self.bench.permissions.mode

    @property
    def mode_state(self) -> SessionModeState:
        """The modes that are allowed and the current one."""
        return SessionModeState(
            self.mode, [SessionMode(each, each.capitalize(), MODE_WORDS[each]) for each in self.modes]
        )

    @property
    def config_options(self) -> list[ConfigOption]:
        """The mode, the model and its effort as options of the session, with their possible values."""
        modes = [ConfigOptionValue(each, each.capitalize(), MODE_WORDS[each]) for each in self.modes]
        models = [ConfigOptionValue(name, name) for name in dict.fromkeys([self.model, *known_models()])]
        options = [
            ConfigOption(MODE, "Permissions", self.mode, modes, "mode", "Which tool calls run without asking."),
            ConfigOption(MODEL, "Model", self.model, models, "model", "The model that answers."),
        ]
        if levels := levels_for(self.session.provider):
            values = [ConfigOptionValue(each, each.capitalize()) for each in (DEFAULT_EFFORT, *levels)]
            effort = self.session.agent.effort or DEFAULT_EFFORT
            about = "How much the model thinks."
            options.append(ConfigOption(EFFORT, "Effort", effort, values, "thought_level", about))
        return options

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The permission modes that are allowed on this machine."""
        return modes_within(self.bench.settings.managed.max_mode)

    def set_mode(self, mode: Mode) -> None:
        """Change the permission mode and notify the editor."""
        self.bench.use_mode(mode, self.session)
        self.chosen_mode = self.mode
        self.sender.send(CurrentModeUpdate(self.mode))
        self._send_config_options()

    def set_model(self, model: str) -> None:
        """Change the model and notify the editor. Raises UnknownModelError, and SessionBusyError during a turn."""
        from outrider.providers.resolution import resolve

        resolve(model)
        self.bench.models.check(model)
        if self.turn:
            raise SessionBusyError("the model cannot be changed during a turn; wait for the turn to end, or cancel it")
        # The session stays open: sub-agents in the background go on.
        self.session.agent = self.bench.agent(model=model, effort=self.bench.effort)
        self._send_config_options()

    def set_effort(self, effort: EffortChoice) -> None:
        """Change the effort and notify the editor. Raises RequestRefusedError, and SessionBusyError during a turn."""
        if effort != "default":
            check_effort(self.session.provider, effort)
        level = None if effort == "default" else effort
        self.session.agent = self.session.agent.replace(effort=level)
        self.bench.effort = level
        self._send_config_options()

    def _send_config_options(self) -> None:
        self.sender.send(ConfigOptionUpdate(self.config_options))

    # Events and the end

    async def close(self) -> None:
        """Release the session, so that others can open it."""
        self.translator.subagents.close()
        self.translator.end()
        self.engine.close()
        self.session.close()
        await asyncio.to_thread(self.bench.close)  # servers have a moment to end

    def send_title(self) -> None:
        """Send the title of the session once, as soon as it has one."""
        with suppress(LogError):  # the turn has ended; a missing title must not fail it
            if not self.sender.has_sent_title and (title := self.log.session(self.id).title):
                self.sender.send_title(title)

    def _read_attachment(self, file: AttachmentBlock) -> bytes:
        return self.session.store.read(file)

    def _context_usage(self) -> tuple[int | None, float | None]:
        return window_of(self.session.provider), self.session.total_usage.cost
