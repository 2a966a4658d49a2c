"""A session that an editor of version 2 has open: a prompt is answered when it stands in the conversation, and how the
work on it goes and ends is told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from outrider.acp.asking import EditorAsker
from outrider.acp.client import Client
from outrider.acp.commands import CONTINUE, available, carried_out
from outrider.acp.content import as_prompt
from outrider.acp.editor_session import EditorSession, wants_full
from outrider.acp.options import selectors
from outrider.acp.refusals import as_wire_error
from outrider.acp.replay import replayed
from outrider.acp.schema.content import ContentBlock
from outrider.acp.updates.engine import Engine
from outrider.acp.v2.asking import DraftAsker
from outrider.acp.v2.event_translator import DraftEventTranslator, is_told
from outrider.acp.v2.schema import Failure, Opened, State
from outrider.acp.v2.state import Foreground
from outrider.acp.v2.update_sender import DraftUpdateSender
from outrider.acp.v2.updates import Updates
from outrider.acp.v2.words import commands, config_options
from outrider.acp.wire import CANCELLED, ClosedError, WireError
from outrider.coding.config.settings import AcpSettings, Settings
from outrider.conversation.attachments import Attachment
from outrider.errors import LogError, OutriderError
from outrider.log.log import Log
from outrider.runtime.events import Event, MessageAdded
from outrider.runtime.run import RunResult
from outrider.tools.tool import Tool


class DraftEditorSession(EditorSession):
    """One session. Prompts that come while it works wait for their turn."""

    teller: DraftUpdateSender
    foreground: Foreground

    def __init__(
        self, client: Client, log: Log, settings: Settings, folder: Path, tools: Sequence[Tool], id: str | None = None
    ) -> None:
        super().__init__(client, log, settings, folder, tools, id)
        self._turn = asyncio.Lock()
        """Whoever has it may let the agent work."""
        self._waiting: set[asyncio.Task[object]] = set()
        """The prompts that wait for their turn."""
        self._inserted: asyncio.Future[str] | None = None
        """The id of the message that is being added, once it stands."""
        self._conducting: asyncio.Task[None] | None = None

    def _asker(self, client: Client, folder: Path) -> EditorAsker:
        return DraftAsker(
            client,
            lambda: self.id,
            lambda: self.engine,
            folder,
            self._read,
            lambda call_id: self.feed.shown_id(call_id),
            lambda: self.foreground,
            lambda: self.bench.workspace.shell_cwd,
        )

    def _tell_in_its_words(self, settings: AcpSettings) -> None:
        client, full = self._client, wants_full(settings, self._client)
        self.teller = DraftUpdateSender(client, self.id, self._read, self._spent)
        self.foreground = Foreground(self._tell_state)
        self._updates = updates = Updates(self.teller.tell, self._read, self.bench.folder, full=full)
        self.engine = Engine(
            updates.tell,
            appending="chunks",
            full=full,
            repeated=None,  # `Updates` leaves out what is known, and shows a change as it was made in the end
            keeps_cancelled=True,
            interval=settings.update_interval,
            congested=lambda: client.is_congested,
        )
        self.feed = DraftEventTranslator(self.engine, self.teller, self.bench.folder, updates, self.foreground)

    def _tell_state(self, state: State) -> None:
        with suppress(ClosedError):  # nobody is there who would want to know
            self.teller.tell(state)

    # How it is opened

    def ready(self, *, with_id: bool) -> Opened:
        """What the editor is told when the session is ready; what else it should know comes right after."""
        asyncio.get_running_loop().call_soon(self.introduce, self.notes)
        known = config_options(selectors(self.mode, self.model)), commands(available())
        return Opened(*known, self.id) if with_id else Opened(*known)

    def introduce(self, notes: Sequence[str]) -> None:
        """What the editor should know of a session before anything is said. The commands it knows already."""
        for note in notes:
            self.teller.notice(note)

    async def replay(self) -> None:
        """Tell all that was said and done, as it would have been told then. The shell begins in its folder again."""
        await super().replay()
        self._updates.cwd = self.bench.folder

    def pass_over(self) -> None:
        """Count what was said, without telling it: the places of messages are their ids."""
        for event in replayed(record.entry for record in self._log.records(self.id)):
            if isinstance(event, MessageAdded) and is_told(event.message):
                self.teller.stood()

    # What is said

    async def begin(self, blocks: Sequence[ContentBlock]) -> str:
        """Let the agent work on what the person says; the id of the message, once it stands in the conversation."""
        said = as_prompt(blocks)
        if not said:
            raise WireError.invalid_params("there is nothing in this prompt: say something, or send a file")
        await self._own_turn()
        if message_id := self._answered_apart(blocks, said):
            return message_id
        goes_on = said == [f"/{CONTINUE}"] and self.session.is_unfinished
        run = self._started([] if goes_on else said)
        if goes_on:
            with self.teller.apart(blocks) as message_id:
                return message_id
        return await self._insertion(run)

    async def _own_turn(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._waiting.add(task)
        try:
            await self._turn.acquire()
        finally:
            self._waiting.discard(task)

    def _answered_apart(self, blocks: Sequence[ContentBlock], said: Sequence[str | Attachment]) -> str:
        """The id of what is for the program and not for the model, and is answered; nothing if it is not so."""
        is_over = True
        try:
            answer = carried_out(self, said[0]) if len(said) == 1 and isinstance(said[0], str) else None
            if answer is None:
                is_over = False
                return ""
            self.foreground.begin()
            with self.teller.apart(blocks) as message_id:
                self.teller.words(answer)
            self.foreground.end("end_turn")
            return message_id
        finally:
            if is_over:
                self._turn.release()

    def _started(self, said: Sequence[str | Attachment]) -> asyncio.Future[RunResult]:
        self.foreground.begin()
        self._inserted = asyncio.get_running_loop().create_future()
        self._is_begun = False
        self._run = run = asyncio.ensure_future(self._work(said))
        self._conducting = asyncio.get_running_loop().create_task(self._conduct(run))
        return run

    async def _insertion(self, run: asyncio.Future[RunResult]) -> str:
        """The id of the message. Whoever stops to wait for it takes it back, unless it stands already."""
        inserted = self._inserted
        assert inserted is not None
        either: list[asyncio.Future[Any]] = [run, inserted]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            super().cancel()
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if inserted.done():
            return inserted.result()
        result = run.result()
        if result.status == "cancelled":
            raise WireError(CANCELLED, "The prompt was cancelled before it was added to the conversation.")
        raise OutriderError(result.error or "what was said could not be added to the conversation")

    async def _conduct(self, run: asyncio.Future[RunResult]) -> None:
        """See the work to its end, and tell it."""
        stop, error = "error", None
        try:
            with as_wire_error():
                stop = self._stop_reason(await run)
        except WireError as fault:
            error = Failure(fault.code, fault.message)
        finally:
            self._run = self._inserted = None
            with suppress(ClosedError):
                self._tell_end(stop, error)
            self._turn.release()

    def _tell_end(self, stop: str, error: Failure | None) -> None:
        self.feed.end()
        self.teller.stopped()
        with suppress(LogError):  # then it has no name
            self._name()
        self.foreground.end(stop, error)

    def _seen(self, event: Event) -> None:
        message_id = self.teller.said_id
        super()._seen(event)
        is_said = isinstance(event, MessageAdded) and event.message.role == "user" and is_told(event.message)
        if is_said and self._inserted and not self._inserted.done():
            self._inserted.set_result(message_id)

    # How it ends

    def cancel(self) -> None:
        """Stop what is going on, and take back the prompts that wait for their turn."""
        for task in self._waiting:
            task.cancel()
        super().cancel()

    async def close(self) -> None:
        """Stop, tell that, and let others open the session."""
        if self._waiting or self._run:
            self.cancel()
        if self._conducting:
            await asyncio.wait([self._conducting])
        await super().close()
