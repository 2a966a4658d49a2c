"""The turns of a session in an editor: prompts, the commands of the user, and the replay, one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from outrider.acp.client import Client
from outrider.acp.content import to_prompt
from outrider.acp.options import has_key
from outrider.acp.replay import replay_session
from outrider.acp.schema.content import ContentBlock
from outrider.acp.schema.requests import StopReason
from outrider.acp.slash_commands import COMPACT, CONTINUE, REWIND, TASKS, argument_of, command_of, run_command
from outrider.acp.tool_calls import fenced
from outrider.coding import sentences
from outrider.coding.prompt_expansion import expand_prompt
from outrider.coding.rewinding import USAGE, RewindReport, parse_rewind, run_rewind
from outrider.coding.tasks import run_tasks
from outrider.conversation.attachments import Attachment
from outrider.errors import (
    AuthenticationError,
    ConversationError,
    OutriderError,
    SessionBusyError,
    SessionCancelledError,
)
from outrider.log.log import Log
from outrider.runtime.run import ENDINGS, RunResult
from outrider.runtime.steering import QueuedMessage

if TYPE_CHECKING:
    from outrider.acp.editor_session import EditorSession

_STOP_REASONS: dict[str, StopReason] = {"refusal": "refusal", "max_tokens": "max_tokens"}


class Turns:
    """Runs what the user sends. Its updates go to the editor."""

    def __init__(self, editor: EditorSession, client: Client, log: Log) -> None:
        self._editor = editor
        self._client = client
        self._log = log
        self._run: asyncio.Future[StopReason] | None = None
        self._run_started = False

    @property
    def is_busy(self) -> bool:
        """Whether a turn goes on."""
        return self._run is not None

    async def replay(self) -> None:
        """Send the updates of the whole stored conversation, as they were sent live. A prompt meanwhile waits."""
        self._editor.engine.forget_ended()  # the session may have been shown before
        await self._work(self._replay())

    async def _replay(self) -> StopReason:
        self._run_started = True
        self._editor.translator.is_replaying = True
        for event in replay_session(self._log, self._editor.id):
            self._editor.translator.handle(event)
            await self._client.drain()
        self._editor.translator.end()
        self._editor.sender.flush()
        self._editor.translator.is_replaying = False
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
                queued = await self._editor.session.steer(await self._expanded(parts))
            except ConversationError:  # nothing runs yet, or a summary is made: this prompt is the next turn
                await asyncio.wait([run])
                await asyncio.sleep(0)
            else:
                return await self._answer_to(queued)
        if argument_of(CONTINUE, command) is not None and self._editor.session.is_unfinished:
            parts = []
        return await self._work(self._run_session(parts))

    async def _run_command(self, text: str) -> StopReason | None:
        """Run one of our own commands, which the model does not see; None if it is none of them."""
        if (output := run_command(self._editor, text)) is not None:
            return self._say(output)
        if (words := argument_of(TASKS, text)) is not None:
            return self._say(await run_tasks(self._editor.bench.workspace.background, words, fenced))
        work = self._command(text)
        if work and self._run:
            work.close()
            raise SessionBusyError("this session is busy; wait for the turn to end, or cancel it")
        return await self._work(work) if work else None

    def _say(self, text: str) -> StopReason:
        """Send the output of a command."""
        self._editor.sender.send_text(text)
        self._editor.sender.flush()
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
            report = await run_rewind(self._editor.session, wanted) if wanted else RewindReport([], problem=USAGE)
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
                if await self._editor.session.unsteer(queued):
                    return "cancelled"
                self.cancel()
                return await run
            except OutriderError:
                await self._editor.session.unsteer(queued)
                raise
            if queued not in self._editor.session.queued:
                return reason
            if reason == "cancelled":
                await self._editor.session.unsteer(queued)
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
            self._editor.translator.end()
            self._editor.sender.flush()
            self._editor.send_title()

    async def _wait_for(self, run: asyncio.Future[StopReason]) -> StopReason:
        """Return the stop reason of the run. If the caller is cancelled, cancel the run and still return its reason."""
        try:
            return await asyncio.shield(run)
        except asyncio.CancelledError:
            self.cancel()
            return await run

    async def _run_session(self, parts: Sequence[str | Attachment]) -> StopReason:
        self._run_started = True
        return self._stop_reason(await self._editor.session.run(await self._expanded(parts)))

    async def _expanded(self, parts: Sequence[str | Attachment]) -> list[str | Attachment]:
        return await expand_prompt(parts, self._editor.bench.prompt_commands, self._editor.bench.servers)

    async def _compact(self, focus: str) -> StopReason:
        self._run_started = True
        try:
            done = await self._editor.session.compact(focus)
        except SessionCancelledError:
            self._editor.translator.end("cancelled")
            return "cancelled"
        except ConversationError as error:  # there is nothing to summarise
            self._editor.sender.send_text(f"{str(error).capitalize()}.")
        else:
            self._editor.sender.send_text(f"{sentences.shortened(done)}.")
        return "end_turn"

    def cancel(self) -> None:
        """Cancel the current turn. Every open call gets a result, and the prompt ends as cancelled."""
        if self._run and not self._run_started:  # the prompt arrived in the same iteration of the event loop
            asyncio.get_running_loop().call_soon(self.cancel)
        else:
            self._editor.session.cancel()

    async def close(self) -> None:
        """Cancel the turn that goes on, and wait for its end."""
        if run := self._run:
            self.cancel()
            await asyncio.wait([run])

    def _stop_reason(self, result: RunResult) -> StopReason:
        if result.status == "error":
            error = OutriderError if has_key(self._editor.session.provider) else AuthenticationError
            raise error(result.error)
        if result.status == "done":
            return _STOP_REASONS.get(result.stop_reason, "end_turn")
        if result.status == "cancelled":
            return "cancelled"
        self._editor.sender.send_notice(ENDINGS[result.status])
        return "max_turn_requests"
