"""A session that is open in an editor: connects a workbench and its conversation to the client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.acp.client import Client
from outrider.acp.content import to_prompt
from outrider.acp.editor_files import EditorBuffers
from outrider.acp.editor_front import EditorFront
from outrider.acp.editor_terminals import EditorTerminals
from outrider.acp.event_translator import EventTranslator
from outrider.acp.options import DEFAULT_EFFORT, config_options, has_key, mode_state, parse_mode
from outrider.acp.permission_requests import PermissionRequester
from outrider.acp.preloading import FOR_PROMPTS, preload
from outrider.acp.replay import replay_session
from outrider.acp.schema.content import ContentBlock
from outrider.acp.schema.notifications import (
    AvailableCommand,
    AvailableCommandsUpdate,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    SessionInfoUpdate,
)
from outrider.acp.schema.requests import ConfigOption, OpenSessionResponse, StopReason
from outrider.acp.slash_commands import (
    COMPACT,
    CONTINUE,
    REWIND,
    TASKS,
    argument_of,
    available_commands,
    command_of,
    own_commands,
    prompt_command,
    run_command,
)
from outrider.acp.system_prompt import USUAL_PROMPT, SystemPrompt
from outrider.acp.tool_call_updates import to_session_update
from outrider.acp.tool_calls import fenced
from outrider.acp.update_sender import UpdateSender
from outrider.acp.updates.engine import Engine
from outrider.coding import sentences
from outrider.coding.config.settings import AcpSettings, Settings
from outrider.coding.mcp.mentions import with_resources
from outrider.coding.mcp.prompts import is_prompt, list_prompts, prompt_parts
from outrider.coding.permissions.question import Mode, Question, narrower
from outrider.coding.rewinding import USAGE, RewindReport, parse_rewind, run_rewind
from outrider.coding.tasks import run_tasks
from outrider.coding.workbench import Workbench
from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import AttachmentBlock, ToolUseBlock, Usage
from outrider.errors import (
    AuthenticationError,
    ConversationError,
    LogError,
    OutriderError,
    SessionBusyError,
    SessionCancelledError,
)
from outrider.log.log import Log
from outrider.providers.api import ApiProvider
from outrider.providers.base import EffortChoice
from outrider.providers.efforts import check_effort
from outrider.providers.windows import window_of
from outrider.runtime.context import ContextUsage
from outrider.runtime.events import Event, TitleMade
from outrider.runtime.run import ENDINGS, RunResult
from outrider.runtime.session import Session
from outrider.runtime.steering import QueuedMessage
from outrider.tools.server_tool import ServerTool
from outrider.tools.tool import Tool

if TYPE_CHECKING:
    from outrider.mcp.elicitation import OnElicit
    from outrider.mcp.running import RunningServers
    from outrider.mcp.servers import McpServer
    from outrider.mcp.supervision import ServerStatus

PROMPT_SECONDS = 60.0
"""How long servers may take to start until their prompts are no more announced."""
_STOP_REASONS: dict[str, StopReason] = {"refusal": "refusal", "max_tokens": "max_tokens"}


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
        requester = PermissionRequester(
            client,
            folder,
            self._read_attachment,
            session=lambda: self.id,
            engine=lambda: self.engine,
            tool_call_id=self._tool_call_id,
        )
        elicit = self._elicitation_requester(client) if servers else None
        self.bench = bench = Workbench(
            settings,
            folder,
            tools=tools,
            servers=servers,
            ask=requester,
            elicit=elicit,
            on_server_notice=self._server_notices() if servers else None,
            front=EditorFront(self),
            system_prompt=system.replacement,
            append_system_prompt=system.appended,
        )
        self._client = client
        self._log = log
        self.session: Session = bench.open(log, id, observer=self._on_event, titled=True)
        self.id = self.session.id
        self.sender = UpdateSender(client, self.id, self._read_attachment, self._context_usage)
        self.engine = Engine(
            lambda update: self.sender.send(to_session_update(update, self._read_attachment, client.output_key)),
            appends=client.appends_output,
            full=wants_full_updates(settings.acp, client),
            interval=settings.acp.update_interval,
            format_output=fenced,
            receiver=client,
        )
        self.translator = EventTranslator(self.engine, self.sender, bench.folder, appends=client.appends_output)
        self._use_editor()
        self.notes: list[str] = []
        """Notices to send right after the session was opened."""
        self._restore_mode(mode)
        self._run: asyncio.Future[StopReason] | None = None
        self._run_started = False
        self._announcing: asyncio.Future[None] | None = None
        self._title_sent = self.session.history.last is not None

    def _restore_mode(self, chosen: Mode | None) -> None:
        """Use the mode that was chosen in this process; else the stored one, unless it allows more than the settings.

        The log must not widen what a process may do: the user may have tightened the settings since.
        """
        self.chosen_mode = chosen
        stored = parse_mode(self._log.settings(self.id).mode or "")
        if chosen:
            self.bench.permissions.mode = chosen
        elif stored:
            self.bench.permissions.mode = mode = narrower(stored, self.mode)
            if mode != stored:
                self.notes.append(sentences.mode_not_restored(stored, mode))

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

    def _elicitation_requester(self, client: Client) -> OnElicit:
        from outrider.acp.elicitation_requests import ElicitationRequester  # imports MCP

        return ElicitationRequester(
            client,
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
    def is_busy(self) -> bool:
        """Whether a turn goes on."""
        return self._run is not None

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
        self.bench.permissions.mode = self.chosen_mode = mode
        with suppress(LogError):  # it holds, but is forgotten when the session is loaded
            self.session.store_mode(mode)
        self.sender.send(CurrentModeUpdate(mode))
        self._send_config_options()

    def set_model(self, model: str) -> None:
        """Change the model and notify the editor. Raises UnknownModelError, and SessionBusyError during a turn."""
        from outrider.providers import resolve

        resolve(model)
        if self._run:
            raise SessionBusyError("the model cannot be changed during a turn; wait for the turn to end, or cancel it")
        self.session.close()
        self.session = self.bench.open(self._log, self.id, model=model, observer=self._on_event, titled=True)
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
        if isinstance(self.session.provider, ApiProvider):
            preload(FOR_PROMPTS)
        if self.bench.servers:
            self._announcing = asyncio.ensure_future(self._announce_prompts(self.bench.servers))

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

    # Turns

    async def replay(self) -> None:
        """Send the updates of the whole stored conversation, as they were sent live. A prompt meanwhile waits."""
        self.engine.forget_ended()  # the session may have been shown before
        await self._work(self._replay())

    async def _replay(self) -> StopReason:
        self._run_started = True
        self.translator.is_replaying = True
        for event in replay_session(self._log, self.id):
            self.translator.handle(event)
            await self._client.drain()
        self.translator.end()
        self.sender.flush()
        self.translator.is_replaying = False
        return "end_turn"

    async def prompt(self, blocks: Sequence[ContentBlock]) -> StopReason:
        """Run a turn with the user's prompt and return its stop reason. Raises OutriderError if the turn fails.

        A prompt during a turn is queued: the turn takes it at its next boundary, and its end answers both.
        """
        parts, command = to_prompt(blocks), command_of(blocks)
        if not parts:
            raise ConversationError("there is nothing to answer: write a message, or /continue to go on")
        if command and (reason := await self._run_command(command)):
            return reason
        while run := self._run:
            try:
                queued = await self.session.steer(await self._with_servers(parts))
            except ConversationError:  # nothing runs yet, or a summary is made: this prompt is the next turn
                await asyncio.wait([run])
                await asyncio.sleep(0)
            else:
                return await self._answer_to(queued)
        if argument_of(CONTINUE, command) is not None and self.session.is_unfinished:
            parts = []
        return await self._work(self._run_session(parts))

    async def _run_command(self, text: str) -> StopReason | None:
        """Run one of our own commands, which the model does not see; None if it is none of them."""
        if (output := run_command(self, text)) is not None:
            return self._say(output)
        if (words := argument_of(TASKS, text)) is not None:
            return self._say(await run_tasks(self.bench.workspace.background, words, fenced))
        work = self._command(text)
        if work and self._run:
            work.close()
            raise SessionBusyError("this session is busy; wait for the turn to end, or cancel it")
        return await self._work(work) if work else None

    def _say(self, text: str) -> StopReason:
        """Send the output of a command."""
        self.sender.send_text(text)
        self.sender.flush()
        return "end_turn"

    def _command(self, text: str) -> Coroutine[Any, Any, StopReason] | None:
        """Return the work of a command that changes the conversation; None if the text is none."""
        if (focus := argument_of(COMPACT, text)) is not None:
            return self._compact(focus)
        if (words := argument_of(REWIND, text)) is not None:
            return self._rewind(words)
        return None

    async def _rewind(self, words: str) -> StopReason:
        self._run_started = True
        wanted = parse_rewind(words)
        try:
            report = await run_rewind(self.session, wanted) if wanted else RewindReport([], problem=USAGE)
        except SessionCancelledError:
            return "cancelled"
        except ConversationError as error:  # there is no such message
            report = RewindReport([], problem=f"{str(error).capitalize()}.")
        shown = fenced("\n".join(report.lines)) if report.lines else ""
        quoted = f"The message was:\n\n{fenced(report.message)}" if report.message else ""
        return self._say("\n\n".join(filter(None, (shown, report.problem, report.hint, quoted))))

    async def _answer_to(self, queued: QueuedMessage) -> StopReason:
        """Return the stop reason of the turn that answers a queued prompt, or `cancelled` if none does."""
        while run := self._run:
            try:
                reason = await asyncio.shield(run)
            except asyncio.CancelledError:
                if await self.session.unsteer(queued):
                    return "cancelled"
                self.cancel()
                return await run
            except OutriderError:
                await self.session.unsteer(queued)
                raise
            if queued not in self.session.queued:
                return reason
            if reason == "cancelled":
                await self.session.unsteer(queued)
                return reason
            await asyncio.sleep(0)
        return await self._work(self._run_session([]))  # a limit ended the turn before its next boundary

    async def _work(self, work: Coroutine[Any, Any, StopReason]) -> StopReason:
        """Run a turn, which can be cancelled from now on."""
        self._run_started = False
        self._run = asyncio.ensure_future(work)
        try:
            return await self._wait_for(self._run)
        finally:
            self._run = None
            self.translator.end()
            self.sender.flush()
            self._send_title()

    async def _wait_for(self, run: asyncio.Future[StopReason]) -> StopReason:
        """Return the stop reason of the run. If the caller is cancelled, cancel the run and still return its reason."""
        try:
            return await asyncio.shield(run)
        except asyncio.CancelledError:
            self.cancel()
            return await run

    async def _run_session(self, parts: Sequence[str | Attachment]) -> StopReason:
        self._run_started = True
        return self._stop_reason(await self.session.run(await self._with_servers(parts)))

    async def _with_servers(self, parts: Sequence[str | Attachment]) -> Sequence[str | Attachment]:
        """Return the prompt with what it names of MCP servers: one of their prompts, or resources."""
        servers = self.bench.servers
        first = parts[0] if len(parts) == 1 else None
        if servers and isinstance(first, str) and is_prompt(first, servers):
            return await prompt_parts(first, servers)
        return await with_resources(await self.bench.prompt_commands.expanded(parts), servers)

    async def _compact(self, focus: str) -> StopReason:
        self._run_started = True
        try:
            done = await self.session.compact(focus)
        except SessionCancelledError:
            self.translator.end("cancelled")
            return "cancelled"
        except ConversationError as error:  # there is nothing to summarise
            self.sender.send_text(f"{str(error).capitalize()}.")
        else:
            self.sender.send_text(f"{sentences.shortened(done)}.")
        return "end_turn"

    def cancel(self) -> None:
        """Cancel the current turn. Every open call gets a result, and the prompt ends as cancelled."""
        if self._run and not self._run_started:  # the prompt arrived in the same iteration of the event loop
            asyncio.get_running_loop().call_soon(self.cancel)
        else:
            self.session.cancel()

    async def close(self) -> None:
        """Cancel the current turn and release the session, so that others can open it."""
        if run := self._run:
            self.cancel()
            await asyncio.wait([run])
        self.translator.end()
        self.engine.close()
        if self._announcing:
            self._announcing.cancel()
        self.session.close()
        await asyncio.to_thread(self.bench.close)  # servers have a moment to end

    def _on_event(self, event: Event) -> None:
        if isinstance(event, TitleMade):
            self._title_sent = True
            self.sender.send(SessionInfoUpdate(event.title))
        else:
            self.translator.handle(event)

    def _stop_reason(self, result: RunResult) -> StopReason:
        if result.status == "error":
            raise OutriderError(result.error) if has_key(self.session.provider) else AuthenticationError(result.error)
        if result.status == "done":
            return _STOP_REASONS.get(result.stop_reason, "end_turn")
        if result.status == "cancelled":
            return "cancelled"
        self.sender.send_notice(ENDINGS[result.status])
        return "max_turn_requests"

    def _send_title(self) -> None:
        """Send the title of the session once, as soon as it has one."""
        with suppress(LogError):  # the turn has ended; a missing title must not fail it
            if not self._title_sent and (title := self._log.session(self.id).title):
                self._title_sent = True
                self.sender.send(SessionInfoUpdate(title))

    def _read_attachment(self, file: AttachmentBlock) -> bytes:
        return self.session.store.read(file)

    def _context_usage(self) -> tuple[int | None, float | None]:
        return window_of(self.session.provider), self.session.total_usage.cost


def wants_full_updates(settings: AcpSettings, client: Client) -> bool:
    """Return whether this editor gets full updates. Only `*` matches an editor that sends no name."""
    return "*" in settings.full_updates or client.name in settings.full_updates
