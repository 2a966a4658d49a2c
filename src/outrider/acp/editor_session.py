"""A session that is open in an editor: connects a workbench and its conversation to the client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.acp.client import Client
from outrider.acp.editor_files import EditorBuffers
from outrider.acp.editor_front import EditorFront
from outrider.acp.editor_terminals import EditorTerminals
from outrider.acp.event_translator import EventTranslator
from outrider.acp.options import DEFAULT_EFFORT, config_options, mode_state
from outrider.acp.permission_requests import PermissionRequester
from outrider.acp.preloading import FOR_PROMPTS, preload
from outrider.acp.schema.notifications import (
    AvailableCommand,
    AvailableCommandsUpdate,
    ConfigOptionUpdate,
    CurrentModeUpdate,
)
from outrider.acp.schema.requests import ConfigOption, OpenSessionResponse
from outrider.acp.slash_commands import (
    available_commands,
    own_commands,
    prompt_command,
)
from outrider.acp.tool_call_updates import to_session_update
from outrider.acp.tool_calls import fenced
from outrider.acp.turns import Turns
from outrider.acp.update_sender import UpdateSender
from outrider.acp.updates.engine import Engine
from outrider.coding.config.settings import AcpSettings, Settings
from outrider.coding.front_end import FrontEnd
from outrider.coding.mcp.prompts import list_prompts
from outrider.coding.permissions.question import Mode, Question
from outrider.coding.system_prompt import USUAL_PROMPT, SystemPrompt
from outrider.coding.workbench import Workbench
from outrider.conversation.messages import AttachmentBlock, ToolUseBlock, Usage
from outrider.errors import (
    LogError,
    OutriderError,
    SessionBusyError,
)
from outrider.log.log import Log
from outrider.providers.base import EffortChoice
from outrider.providers.efforts import check_effort
from outrider.providers.windows import window_of
from outrider.runtime.context import ContextUsage
from outrider.runtime.session import Session
from outrider.tools.server_tool import ServerTool
from outrider.tools.tool import Tool

if TYPE_CHECKING:
    from outrider.mcp.elicitation import OnElicit
    from outrider.mcp.running import RunningServers
    from outrider.mcp.servers import McpServer
    from outrider.mcp.supervision import ServerStatus

PROMPT_SECONDS = 60.0
"""How long servers may take to start until their prompts are no more announced."""


class EditorSession:
    """One session. It runs prompts and sends session updates to the editor."""

    def __init__(
        self,
        client: Client,
        log: Log,
        settings: Settings,
        folder: Path,
        tools: Sequence[Tool],
        servers: Sequence[McpServer] = (),
        id: str | None = None,
        *,
        mode: Mode | None = None,
        system: SystemPrompt = USUAL_PROMPT,
    ) -> None:
        """`mode` is the permission mode that the user has chosen for it in this process, if there is one."""
        self._client = client
        self._log = log
        front_end = self._front_end(folder, with_servers=bool(servers))
        self.bench = Workbench(
            settings, folder, tools=tools, servers=servers, front_end=front_end, system_prompt=system
        )
        self.session: Session = self.bench.open(log, id, titled=True)
        self.id = self.session.id
        self.sender = UpdateSender(client, self.id, self._read_attachment, self._context_usage)
        self.sender.has_sent_title = self.session.history.last is not None
        self.engine = self._new_engine(settings.acp)
        self.translator = EventTranslator(self.engine, self.sender, self.bench.folder, appends=client.appends_output)
        self.session.observe(self.translator.handle)
        self.turns = Turns(self, client, log)
        self._use_editor()
        self.notes: list[str] = [log.warning] if log.warning else []
        """Notices to send right after the session was opened."""
        self._restore_mode(mode)
        self._announcing: asyncio.Future[None] | None = None
        self._trying: asyncio.Future[None] | None = None

    def _front_end(self, folder: Path, *, with_servers: bool) -> FrontEnd:
        """Return what the workbench uses of the editor: its dialogues and notices."""
        requester = PermissionRequester(
            self._client,
            folder,
            self._read_attachment,
            session=lambda: self.id,
            engine=lambda: self.engine,
            tool_call_id=self._tool_call_id,
        )
        if not with_servers:
            return FrontEnd(requester, remote=EditorFront(self))
        return FrontEnd(requester, self._elicitation_requester(), self._server_notices(), EditorFront(self))

    def _new_engine(self, settings: AcpSettings) -> Engine:
        client = self._client
        return Engine(
            lambda update: self.sender.send(to_session_update(update, self._read_attachment, client.output_key)),
            appends=client.appends_output,
            full=wants_full_updates(settings, client),
            interval=settings.update_interval,
            format_output=fenced,
            receiver=client,
        )

    def _restore_mode(self, chosen: Mode | None) -> None:
        """Use the mode that was chosen in this process; else the stored one."""
        self.chosen_mode = chosen
        if chosen:
            self.bench.permissions.mode = chosen
        elif note := self.bench.restore_mode(self._log, self.id):
            self.notes.append(note)

    def _server_notices(self) -> Callable[[str], None]:
        """Return a function that sends what happens to MCP servers at once, also between turns."""
        loop = asyncio.get_running_loop()

        def send(text: str) -> None:
            with contextlib.suppress(RuntimeError):  # the agent has ended
                loop.call_soon_threadsafe(lambda: self.sender.send_notice(text))

        return send

    def _tool_call_id(self, question: Question) -> str:
        """Return the id by which the editor knows a call. One from before the session was loaded is shown again.

        A question of a tool that attaches a file is about no call, and neither is one about web search: "".
        """
        if question.asker:
            known = self.translator.subagent_call_id(question.call_id)
            state = self.engine.state(known)
            return known if state and (state.status, state.name) == ("pending", question.tool) else ""
        self.translator.announce(ToolUseBlock(question.call_id, question.tool, question.input))
        return self.translator.tool_call_id(question.call_id)

    def _elicitation_requester(self) -> OnElicit:
        from outrider.acp.elicitation_requests import ElicitationRequester  # imports MCP

        return ElicitationRequester(
            self._client,
            session=lambda: self.id,
            engine=lambda: self.engine,
            notice=lambda text: self.sender.send_notice(text),
        )

    def _use_editor(self) -> None:
        """Let the tools use the editor's files and terminals, as far as the client offers them."""
        offered = self._client.capabilities
        if offered.fs.read_text_file or offered.fs.write_text_file:
            self.bench.workspace.buffers = EditorBuffers(self._client, self.id)
        if offered.terminal:
            self.bench.workspace.terminals = EditorTerminals(self._client, self.id)

    # State

    @property
    def model(self) -> str:
        """The name of the current model."""
        model = self.session.agent.model
        return model if isinstance(model, str) else model.name

    @property
    def mode(self) -> Mode:
        """The permission mode."""
        return self.bench.permissions.mode

    @property
    def effort(self) -> str:
        """How much the model thinks."""
        return self.session.agent.effort or DEFAULT_EFFORT

    @property
    def config_options(self) -> list[ConfigOption]:
        """The options of the session with their values."""
        return config_options(self.mode, self.model, self.session.provider, self.session.agent.effort)

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools of the agent."""
        return [*self.bench.tools, *(self.bench.servers.tools() if self.bench.servers else ())]

    @property
    def server_states(self) -> Sequence[ServerStatus]:
        """The state of each MCP server."""
        return self.bench.servers.statuses() if self.bench.servers else ()

    @property
    def server_tools(self) -> Sequence[ServerTool]:
        """The tools that the model's API runs."""
        return self.session.agent.server_tools

    @property
    def total_usage(self) -> Usage:
        """The tokens and cost of the session so far."""
        return self.session.total_usage

    @property
    def context(self) -> ContextUsage:
        """What fills the context window."""
        return self.session.context

    @property
    def is_unfinished(self) -> bool:
        """Whether the last turn was interrupted and can be continued."""
        return self.session.is_unfinished

    def open_response(self, *, with_id: bool) -> OpenSessionResponse:
        """Return the response to the request that opened the session. Commands and notices are sent right after it."""
        asyncio.get_running_loop().call_soon(self._send_introduction)
        state = mode_state(self.mode), self.config_options
        return OpenSessionResponse(*state, self.id) if with_id else OpenSessionResponse(*state)

    def set_mode(self, mode: Mode) -> None:
        """Change the permission mode and notify the editor."""
        self.chosen_mode = mode
        self.bench.use_mode(mode, self.session)
        self.sender.send(CurrentModeUpdate(mode))
        self._send_config_options()

    def set_model(self, model: str) -> None:
        """Change the model and notify the editor. Raises UnknownModelError, and SessionBusyError during a turn."""
        from outrider.providers import resolve

        resolve(model)
        if self.turns.is_busy:
            raise SessionBusyError("the model cannot be changed during a turn; wait for the turn to end, or cancel it")
        self.session.close()
        self.session = self.bench.open(self._log, self.id, model=model, observer=self.translator.handle, titled=True)
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

    def _send_introduction(self) -> None:
        """Send the available commands, and the notices about the session."""
        self.sender.send(AvailableCommandsUpdate(self._commands()))
        for note in self.notes:
            self.sender.send_notice(note)
        self._trying = asyncio.ensure_future(self._try_sandbox())
        if self.model != "demo":  # it needs no transport
            preload(FOR_PROMPTS)
        if self.bench.servers:
            self._announcing = asyncio.ensure_future(self._announce_prompts(self.bench.servers))

    async def _try_sandbox(self) -> None:
        """Find the sandbox while the user types, and tell the user if there is none."""
        with suppress(OSError):  # the first command raises it again
            if note := await asyncio.to_thread(lambda: self.bench.sandbox_note):
                self.sender.send_notice(note)

    async def _announce_prompts(self, servers: RunningServers) -> None:
        """Send the commands again, with the prompts of the MCP servers, when these have started."""
        with suppress(OutriderError):
            await servers.settled(PROMPT_SECONDS)
            if prompts := await servers.do(list_prompts):
                self.sender.send(AvailableCommandsUpdate([*self._commands(), *map(prompt_command, prompts)]))

    def _commands(self) -> list[AvailableCommand]:
        """Return our own commands, then those of the user and the project."""
        ours = available_commands()
        return [*ours, *own_commands(self.bench.prompt_commands, {each.name for each in ours})]

    # Events and the end

    async def close(self) -> None:
        """Cancel the current turn and release the session, so that others can open it."""
        await self.turns.close()
        self.translator.end()
        self.engine.close()
        for task in filter(None, (self._announcing, self._trying)):
            task.cancel()
        self.session.close()
        await asyncio.to_thread(self.bench.close)  # servers have a moment to end

    def send_title(self) -> None:
        """Send the title of the session once, as soon as it has one."""
        with suppress(LogError):  # the turn has ended; a missing title must not fail it
            if not self.sender.has_sent_title and (title := self._log.session(self.id).title):
                self.sender.send_title(title)

    def _read_attachment(self, file: AttachmentBlock) -> bytes:
        return self.session.store.read(file)

    def _context_usage(self) -> tuple[int | None, float | None]:
        return window_of(self.session.provider), self.session.total_usage.cost


def wants_full_updates(settings: AcpSettings, client: Client) -> bool:
    """Return whether this editor gets full updates. Only `*` matches an editor that sends no name."""
    return "*" in settings.full_updates or client.name in settings.full_updates
