"""A session that an editor has open: its workbench, its conversation, and the way from one to the other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from outrider.acp.asking import EditorAsker
from outrider.acp.calls import fenced
from outrider.acp.client import Client
from outrider.acp.commands import CONTINUE, available, carried_out
from outrider.acp.content import as_prompt
from outrider.acp.editor import EditorBuffers, EditorTerminals
from outrider.acp.event_translator import EventTranslator
from outrider.acp.options import has_key, modes, selectors
from outrider.acp.replay import replayed
from outrider.acp.schema.content import ContentBlock
from outrider.acp.schema.notifications import Commands, ConfigChanged, CurrentMode, InfoChanged
from outrider.acp.schema.requests import Opened, StopReason
from outrider.acp.update_sender import UpdateSender
from outrider.acp.updates.engine import Engine
from outrider.acp.v1 import call_of
from outrider.coding.config.settings import AcpSettings, Settings
from outrider.coding.permissions.question import Mode
from outrider.coding.workbench import Workbench
from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import AttachmentBlock
from outrider.errors import AuthenticationError, LogError, OutriderError, SessionBusyError
from outrider.log.log import Log
from outrider.providers.windows import window_of
from outrider.runtime.events import Event
from outrider.runtime.run import ENDINGS, RunResult
from outrider.runtime.session import Session
from outrider.tools.tool import Tool

_STOPS: dict[str, StopReason] = {"refusal": "refusal", "max_tokens": "max_tokens"}


class EditorSession:
    """One session. Whatever it does, it tells the editor."""

    def __init__(
        self, client: Client, log: Log, settings: Settings, folder: Path, tools: Sequence[Tool], id: str | None = None
    ) -> None:
        self.bench = bench = Workbench(settings, folder, tools=tools, ask=self._asker(client, folder))
        self._client = client
        self._log = log
        self.session: Session = bench.open(log, id, observer=self._seen)
        self.id = self.session.id
        self._tell_in_its_words(settings.acp)
        self._use_editor()
        self.notes: Sequence[str] = ()
        """What the person should know of the session before anything is said."""
        self._run: asyncio.Future[RunResult] | None = None
        self._is_begun = False
        self._is_named = self.session.history.last is not None

    def _asker(self, client: Client, folder: Path) -> EditorAsker:
        return EditorAsker(
            client, lambda: self.id, lambda: self.engine, folder, self._read, lambda call: self.feed.shown_id(call)
        )

    def _tell_in_its_words(self, settings: AcpSettings) -> None:
        """What goes from the session to the editor, by the version of the protocol that it speaks."""
        client = self._client
        self.teller = UpdateSender(client, self.id, self._read, self._spent)
        self.engine = Engine(
            lambda update: self.teller.tell(call_of(update, self._read, client.output_key)),
            appends=client.appends_output,
            full=wants_full(settings, client),
            interval=settings.update_interval,
            output_as=fenced,
            congested=lambda: client.is_congested,
        )
        self.feed = EventTranslator(self.engine, self.teller, self.bench.folder, appends=client.appends_output)

    def _use_editor(self) -> None:
        """Have the tools use the editor's files and terminals, as far as it offers them."""
        offers = self._client.capabilities
        if offers.fs.read_text_file or offers.fs.write_text_file:
            self.bench.workspace.buffers = EditorBuffers(self._client, self.id)
        if offers.terminal:
            self.bench.workspace.terminals = EditorTerminals(self._client, self.id)

    # What it is made of

    @property
    def model(self) -> str:
        """Who answers."""
        model = self.session.agent.model
        return model if isinstance(model, str) else model.name

    @property
    def mode(self) -> Mode:
        """What is allowed without asking."""
        return self.bench.permissions.mode

    def opened(self, *, with_id: bool) -> Opened:
        """What the editor is told when the session is ready; what else it should know comes right after."""
        asyncio.get_running_loop().call_soon(self.introduce, self.notes)
        state = modes(self.mode), selectors(self.mode, self.model)
        return Opened(*state, self.id) if with_id else Opened(*state)

    def use_mode(self, mode: Mode) -> None:
        """Change what is allowed without asking; the editor is told."""
        self.bench.permissions.mode = mode
        self.teller.tell(CurrentMode(mode))
        self.teller.tell(ConfigChanged(selectors(self.mode, self.model)))

    def use_model(self, model: str) -> None:
        """Have another model answer from now on. Raises UnknownModelError, and SessionBusyError while one answers."""
        from outrider.providers import resolve

        resolve(model)
        if self._run:
            raise SessionBusyError("the model can be changed when the turn is over; wait for it, or cancel it")
        self.session.close()
        self.session = self.bench.open(self._log, self.id, model=model, observer=self._seen)
        self.teller.tell(ConfigChanged(selectors(self.mode, self.model)))

    # What happens

    def introduce(self, notes: Sequence[str]) -> None:
        """What the editor should know of a session before anything is said."""
        self.teller.tell(Commands(available()))
        for note in notes:
            self.teller.notice(note)

    async def replay(self) -> None:
        """Tell all that was said and done, as it would have been told then."""
        self.feed.echoes = True
        for event in replayed(record.entry for record in self._log.records(self.id)):
            self.feed.show(event)
            await self._client.caught_up()
        self.feed.end()
        self.teller.flush()
        self.feed.echoes = False

    async def prompt(self, blocks: Sequence[ContentBlock]) -> StopReason:
        """Let the agent work on what the person says. Raises OutriderError for what goes wrong on the way."""
        if self._run:
            raise SessionBusyError("this session is still at work; cancel it first, or wait")
        said = as_prompt(blocks)
        if len(said) == 1 and isinstance(said[0], str) and (answer := carried_out(self, said[0])) is not None:
            self.teller.words(answer)
            self.teller.flush()
            return "end_turn"
        if said == [f"/{CONTINUE}"] and self.session.is_unfinished:
            said = []
        self._is_begun = False
        self._run = asyncio.ensure_future(self._work(said))
        try:
            return self._stop_reason(await self._ended(self._run))
        finally:
            self._run = None
            self.feed.end()
            self.teller.flush()
            self._name()

    async def _ended(self, run: asyncio.Future[RunResult]) -> RunResult:
        """How the run ends. Whoever stops to wait for it wants it to be cancelled, and hears of that end, too."""
        try:
            return await asyncio.shield(run)
        except asyncio.CancelledError:
            self.cancel()
            return await run

    async def _work(self, said: Sequence[str | Attachment]) -> RunResult:
        self._is_begun = True
        return await self.session.run(said)

    def cancel(self) -> None:
        """Stop what is going on: every call is answered, and the prompt ends as cancelled."""
        if self._run and not self._is_begun:  # the prompt came in the same moment
            asyncio.get_running_loop().call_soon(self.cancel)
        else:
            self.session.cancel()

    async def close(self) -> None:
        """Stop, and let others open the session."""
        if run := self._run:
            self.cancel()
            await asyncio.wait([run])
        self.feed.end()
        self.engine.close()
        self.session.close()
        self.bench.close()

    def _seen(self, event: Event) -> None:
        self.feed.show(event)

    def _stop_reason(self, result: RunResult) -> StopReason:
        if result.status == "error":
            raise OutriderError(result.error) if has_key(self.session.provider) else AuthenticationError(result.error)
        if result.status == "done":
            return _STOPS.get(result.stop_reason, "end_turn")
        if result.status == "cancelled":
            return "cancelled"
        self.teller.notice(ENDINGS[result.status])
        return "max_turn_requests"

    def _name(self) -> None:
        """The title that the session has, once something was said."""
        with suppress(LogError):  # the turn is over all the same
            if not self._is_named and (title := self._log.session(self.id).title):
                self._is_named = True
                self.teller.tell(InfoChanged(title))

    def _read(self, file: AttachmentBlock) -> bytes:
        return self.session.store.read(file)

    def _spent(self) -> tuple[int | None, float | None]:
        return window_of(self.session.provider), self.session.total_usage.cost


def wants_full(settings: AcpSettings, client: Client) -> bool:
    """Whether this editor is sent each update whole. One that does not say its name is meant by `*` alone."""
    return "*" in settings.full_updates or client.name in settings.full_updates
