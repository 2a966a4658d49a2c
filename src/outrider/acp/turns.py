"""The turns of a session in an editor: prompts, the commands of the user, and the replay, one at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from outrider.acp.client import EditorClient
from outrider.acp.content import to_prompt
from outrider.acp.editor_session import EditorSession, SessionOpening
from outrider.acp.schema import AvailableCommandsUpdate, ContentBlock, OpenSessionResponse, StopReason, TextContent
from outrider.acp.slash_commands import (
    COMPACT,
    CONTINUE,
    GOAL,
    TASKS,
    argument_of,
    available_commands,
    command_of,
    prompt_command,
    run_command,
)
from outrider.acp.tool_calls import fenced
from outrider.coding import sentences
from outrider.coding.commands import expand_prompt
from outrider.coding.mcp.server_offers import list_prompts
from outrider.coding.permissions.question import Mode
from outrider.coding.rewind_points import PARSERS, RewindReport, run_rewind
from outrider.coding.tasks import run_tasks
from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import Message
from outrider.errors import ConversationError, LogError, OutriderError, SessionBusyError, SessionCancelledError
from outrider.log.entries import BackgroundTask, CallResult, Record, SubagentLinked
from outrider.log.log import Log
from outrider.preloading import FOR_REQUESTS, preload
from outrider.runtime.entry_events import EntryEvents
from outrider.runtime.events import Event, QuestionAnswered, QuestionAsked, SubagentEvent, SubagentStarted
from outrider.runtime.goal import goal_message
from outrider.runtime.run import ENDINGS, RunResult
from outrider.runtime.steering import QueuedMessage

if TYPE_CHECKING:
    from outrider.mcp.running import RunningServers


def replay_session(log: Log, id: str) -> Iterator[Event]:
    """Yield the events of a session and of its sub-agents, in the order in which they happened."""
    children = ReplayedChildren(log)
    own = EntryEvents()
    for record in log.shown_records(id):
        entry = record.entry
        if isinstance(entry, SubagentLinked):
            yield from children.start(entry)
            continue
        if isinstance(entry, BackgroundTask):
            yield from children.change(entry)
        yield from children.until(record.time, entry.result.tool_use_id if isinstance(entry, CallResult) else "")
        yield from own.of(record)
    yield from children.until(float("inf"))


class ReplayedChildren:
    """The sub-agents that run at a moment of the replay."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._running: dict[str, tuple[str, deque[Record], EntryEvents]] = {}
        """By session: the call that started it, and the entries that are not replayed yet."""
        self._behind: dict[str, BackgroundTask] = {}
        """Those in the background, as they are at the moment."""

    def start(self, link: SubagentLinked) -> Iterator[Event]:
        """Yield the start of a sub-agent."""
        try:
            records = deque(self._log.records(link.session))
            title = self._log.claimed_settings(link.session).title or ""
        except LogError:  # it was deleted, or belongs to a log that this session was imported from
            return
        name, _, task = title.partition(": ")
        self._running[link.session] = link.call_id, records, EntryEvents()
        yield SubagentStarted(link.call_id, link.session, name, task, background=link.session in self._behind)

    def change(self, task: BackgroundTask) -> Iterator[Event]:
        """Yield that one in the background goes on after its end."""
        before = self._behind.get(task.session)
        self._behind[task.session] = task
        if before and before.status and not task.status and task.session in self._running:
            yield SubagentStarted(task.call_id, task.session, task.name, task.title, background=True)

    def until(self, moment: float, ended: str = "") -> Iterator[Event]:
        """Yield what sub-agents did until then, and all that is left of those whose call has ended."""
        while due := [
            (records[0].time, session)
            for session, (call_id, records, _) in self._running.items()
            if records and (records[0].time <= moment or (call_id == ended and session not in self._behind))
        ]:
            session = min(due)[1]
            call_id, records, events = self._running[session]
            for event in events.of(records.popleft()):
                yield SubagentEvent(call_id, session, event)


PROMPT_SECONDS = 60.0
"""How long servers may take to start until their prompts are no more announced."""
_STOP_REASONS: dict[str, StopReason] = {"refusal": "refusal", "max_tokens": "max_tokens"}


class EditorFront:
    """Answers, messages and stops from elsewhere, as if the user had given them in the editor. Implements `Front`."""

    place = "in the editor"
    turns: Turns
    """The session. Set it once it is open."""

    def answered(self, text: str) -> None:
        """Show that a question was answered elsewhere."""
        self.turns.editor.sender.send_notice(text, "info")

    def use_mode(self, mode: Mode) -> None:
        self.turns.editor.set_mode(mode)

    async def say(self, text: str) -> None:
        """Run a turn, or queue the text for the turn that goes on. The editor sees it as a message of the user."""
        self.turns.editor.sender.send_user_message(Message.user(text))
        try:
            await self.turns.prompt([TextContent(text)])
        except OutriderError as error:
            self.turns.editor.sender.send_notice(str(error))

    def stop(self) -> None:
        self.turns.cancel()


class Turns:
    """Runs what the user sends to a session. Its updates go to the editor."""

    def __init__(self, client: EditorClient, log: Log, opening: SessionOpening) -> None:
        front = EditorFront()
        self.editor = EditorSession(client, log, opening, front)
        front.turns = self
        self._run_started = False
        self._introducing: list[asyncio.Future[None]] = []

    # The beginning and the end

    def open_response(self, *, with_id: bool) -> OpenSessionResponse:
        """Return the response to the request that opened the session. Commands and notices are sent right after it."""
        asyncio.get_running_loop().call_soon(self._introduce)
        state = self.editor.mode_state, self.editor.config_options
        return OpenSessionResponse(*state, self.editor.id) if with_id else OpenSessionResponse(*state)

    def _introduce(self) -> None:
        """Send the available commands, and the notices about the session."""
        editor = self.editor
        editor.sender.send(AvailableCommandsUpdate(available_commands(editor)))
        for note in editor.notes:
            editor.sender.send_notice(note)
        self._introducing.append(asyncio.ensure_future(self._try_sandbox()))
        if editor.model != "demo":  # it needs no transport
            preload(FOR_REQUESTS)
        if editor.bench.servers:
            self._introducing.append(asyncio.ensure_future(self._announce_prompts(editor.bench.servers)))

    async def _try_sandbox(self) -> None:
        """Find the sandbox while the user types, and tell the user if there is none."""
        with suppress(OSError):  # the first command raises it again
            if note := await asyncio.to_thread(lambda: self.editor.bench.project.sandbox_note):
                self.editor.sender.send_notice(note)

    async def _announce_prompts(self, servers: RunningServers) -> None:
        """Send the commands again, with the prompts of the MCP servers, when these have started."""
        with suppress(OutriderError):
            await servers.settled(PROMPT_SECONDS)
            if prompts := await servers.do(list_prompts):
                commands = [*available_commands(self.editor), *map(prompt_command, prompts)]
                self.editor.sender.send(AvailableCommandsUpdate(commands))

    async def close(self) -> None:
        """Cancel the turn that goes on, wait for its end, and release the session. A question stays open."""
        if run := self.editor.turn:
            self.editor.bench.keep_question(self.editor.session)
            self.cancel()
            await asyncio.wait([run])
        for task in self._introducing:
            task.cancel()
        await self.editor.close()

    # Turns

    async def replay(self) -> None:
        """Send the updates of the whole stored conversation, as they were sent live. A prompt meanwhile waits."""
        self.editor.engine.forget_ended()  # the session may have been shown before
        await self._work(self._replay())

    async def _replay(self) -> StopReason:
        self._run_started = True
        self.editor.translator.is_replaying = True
        for event in replay_session(self.editor.log, self.editor.id):
            if isinstance(event, QuestionAsked | QuestionAnswered):
                self.editor.requester.replay(event)
            else:
                self.editor.translator.handle(event)
            await self.editor.client.drain()
        self.editor.translator.end()
        self.editor.sender.flush()
        self.editor.translator.is_replaying = False
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
        if goal := argument_of(GOAL, command):
            self.editor.session.set_goal(goal)
            parts = [goal_message(goal)]
        while run := self.editor.turn:
            try:
                queued = await self.editor.session.steer(await self._expanded(parts))
            except ConversationError:  # nothing runs yet, or a summary is made: this prompt is the next turn
                await asyncio.wait([run])
                await asyncio.sleep(0)
            else:
                return await self._answer_to(queued)
        if argument_of(CONTINUE, command) is not None and self.editor.session.is_unfinished:
            parts = []
        return await self._work(self._run_session(parts))

    async def _run_command(self, text: str) -> StopReason | None:
        """Run one of our own commands, which the model does not see; None if it is none of them."""
        if (output := run_command(self.editor, text)) is not None:
            return self._say(output)
        if (words := argument_of(TASKS, text)) is not None:
            commands, agents = self.editor.bench.workspace.background, self.editor.session.background
            return self._say(await run_tasks(commands, agents, words, fenced))
        work = self._command(text)
        if work and self.editor.turn:
            work.close()
            raise SessionBusyError("this session is busy; wait for the turn to end, or cancel it")
        return await self._work(work) if work else None

    def _say(self, text: str) -> StopReason:
        self.editor.sender.send_text(text)
        self.editor.sender.flush()
        return "end_turn"

    def _command(self, text: str) -> Coroutine[Any, Any, StopReason] | None:
        """Return the work of a command that changes the conversation; None if the text is none."""
        if (focus := argument_of(COMPACT, text)) is not None:
            return self._compact(focus)
        for name in PARSERS:
            if (words := argument_of(name, text)) is not None:
                return self._rewind(name, words)
        return None

    async def _rewind(self, command: str, words: str) -> StopReason:
        self._run_started = True
        parse, usage, _ = PARSERS[command]
        wanted = parse(words)
        try:
            report = await run_rewind(self.editor.session, wanted) if wanted else RewindReport([], problem=usage)
        except SessionCancelledError:
            return "cancelled"
        except ConversationError as error:  # there is no such message
            report = RewindReport([], problem=f"{str(error).capitalize()}.")
        shown = fenced("\n".join(report.lines)) if report.lines else ""
        quoted = f"The message was:\n\n{fenced(report.message)}" if report.message else ""
        return self._say("\n\n".join(filter(None, (shown, report.problem, report.hint, quoted))))

    async def _answer_to(self, queued: QueuedMessage) -> StopReason:
        """Return the stop reason of the turn that answers a queued prompt, or `cancelled` if none does."""
        while run := self.editor.turn:
            try:
                reason = await asyncio.shield(run)
            except asyncio.CancelledError:
                if await self.editor.session.unsteer(queued):
                    return "cancelled"
                self.cancel()
                return await run
            except OutriderError:
                await self.editor.session.unsteer(queued)
                raise
            if queued not in self.editor.session.queued:
                return reason
            if reason == "cancelled":
                await self.editor.session.unsteer(queued)
                return reason
            await asyncio.sleep(0)
        return await self._work(self._run_session([]))  # a limit ended the turn before its next boundary

    async def _work(self, work: Coroutine[Any, Any, StopReason]) -> StopReason:
        """Run a turn, which can be cancelled from now on."""
        self._run_started = False
        self.editor.turn = asyncio.ensure_future(work)
        try:
            return await self._wait_for(self.editor.turn)
        finally:
            self.editor.turn = None
            self.editor.translator.end()
            self.editor.sender.flush()
            self.editor.send_title()

    async def _wait_for(self, run: asyncio.Future[StopReason]) -> StopReason:
        """Return the stop reason of the run. If the caller is cancelled, cancel the run and still return its reason."""
        try:
            return await asyncio.shield(run)
        except asyncio.CancelledError:
            self.cancel()
            return await run

    async def _run_session(self, parts: Sequence[str | Attachment]) -> StopReason:
        self._run_started = True
        return self._stop_reason(await self.editor.session.run(await self._expanded(parts) or ""))

    async def _expanded(self, parts: Sequence[str | Attachment]) -> list[str | Attachment]:
        return await expand_prompt(parts, self.editor.bench.prompt_commands, self.editor.bench.servers)

    async def _compact(self, focus: str) -> StopReason:
        self._run_started = True
        try:
            done = await self.editor.session.compact(focus)
        except SessionCancelledError:
            self.editor.translator.end("cancelled")
            return "cancelled"
        except ConversationError as error:  # there is nothing to summarise
            self.editor.sender.send_text(f"{str(error).capitalize()}.")
        else:
            self.editor.sender.send_text(f"{sentences.shortened(done)}.")
        return "end_turn"

    def cancel(self) -> None:
        """Cancel the current turn. Every open call gets a result, and the prompt ends as cancelled."""
        if self.editor.turn and not self._run_started:  # the prompt arrived in the same iteration of the event loop
            asyncio.get_running_loop().call_soon(self.cancel)
        else:
            self.editor.session.cancel()

    def _stop_reason(self, result: RunResult) -> StopReason:
        if result.status == "error":
            raise OutriderError(result.error)
        if result.status == "done":
            return _STOP_REASONS.get(result.stop_reason, "end_turn")
        if result.status == "cancelled":
            return "cancelled"
        self.editor.sender.send_notice(result.error or ENDINGS[result.status])
        return "max_turn_requests"
