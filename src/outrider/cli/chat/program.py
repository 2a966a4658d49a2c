"""The chat: a person says something, the agent works, and both see the same screen."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from outrider.cli.chat.asking import QuestionPrompt
from outrider.cli.chat.commands import Commands, Next
from outrider.cli.chat.current import Current, history_file, home_relative
from outrider.cli.chat.editor import PROMPT, Editor
from outrider.cli.chat.keys import Keyboard
from outrider.cli.chat.markdown import rendered
from outrider.cli.chat.mentions import missing_files, with_files
from outrider.cli.chat.pictures import protocol
from outrider.cli.chat.status import Status
from outrider.cli.chat.view import View
from outrider.cli.plain import plain, plain_lines
from outrider.cli.region import Region
from outrider.cli.styles import BOLD, CYAN, DIM, styled
from outrider.coding.config.loading import Loaded
from outrider.coding.permissions.question import MODE_WORDS, MODES, Answer, Question
from outrider.conversation.attachments import Attachment
from outrider.errors import OutriderError
from outrider.runtime.events import Event, MessageAdded
from outrider.runtime.run import ENDINGS, RunResult
from outrider.version import __version__


class Chat:
    """One person in one terminal. What only an answer needs is imported while they type."""

    def __init__(self, loaded: Loaded, folder: Path, model: str | None, attached: Sequence[Attachment]) -> None:
        self._loaded = loaded
        self._attached = attached
        self._current = Current(loaded.settings, folder, model, self._observe, self._ask)
        self._status = Status(self._current)
        self._view = View(
            Region(sys.stdout),
            folder,
            show_thinking=loaded.settings.chat.show_thinking,
            pictures=protocol(os.environ),
        )
        self._view.status = self._status
        self._view.typed = lambda: self._keyboard.typed
        self._commands = Commands(self._current, self._view)
        self._keyboard = Keyboard(self._interrupt)
        self._asker = QuestionPrompt(self._view, self._keyboard, folder, self._interrupt)
        self._editor = Editor(folder, history_file(), self._commands.purposes, self._status, self._next_mode)
        self._prepared: asyncio.Future[None] | None = None
        self._is_told = False
        """Whether the notes of the workbench were shown."""
        self._task: asyncio.Task[None] | None = None
        self._turn: asyncio.Task[RunResult] | None = None
        self._interrupted = False
        """Whether the last thing that the person did was to press Ctrl-C."""

    async def run(self, first: str = "", resume: str | None = None) -> None:
        """Talk until the person leaves."""
        self._task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._end)
        loop.add_signal_handler(signal.SIGINT, self._interrupt, True)
        self._greet()
        self._prepared = loop.run_in_executor(None, self._prepare)
        self._prepared.add_done_callback(self._is_prepared)
        try:
            if resume:
                await self._ready()
                self._commands.show_session(self._current.go_to(resume))
            if first:
                self._view.write([f"{PROMPT}{line}" for line in plain_lines(first).split("\n")])
            await self._talk(await self._answer(first) if first else "")
        except asyncio.CancelledError:
            pass  # the terminal is gone, or the person wants to be
        finally:
            self._farewell()

    # The conversation

    async def _talk(self, typed: str) -> None:
        while True:
            try:
                text = (await self._editor.read(typed)).strip()
                self._interrupted, typed = False, ""
                if _is_command(text):
                    following = await self._carry_out(text)
                    if following == "leave":
                        return
                    typed = await self._answer("") if following else ""
                elif text:
                    typed = await self._answer(text)
            except KeyboardInterrupt:
                typed = ""
                if self._wants_to_leave():
                    return
            except EOFError:
                return

    async def _carry_out(self, text: str) -> Next:
        try:
            await self._ready()
        except OutriderError as error:  # what was to be prepared cannot be; some commands work all the same
            self._view.problem(str(error))
        return self._commands.carry_out(text)

    def _wants_to_leave(self) -> bool:
        """Ctrl-C in the line: it empties the line; in an empty one it is the first of two."""
        if self._interrupted and not self._editor.left:
            return True
        self._interrupted = not self._editor.left
        if self._interrupted:
            self._view.dim("Ctrl-C again leaves.")
        return False

    async def _answer(self, text: str) -> str:
        """Let the agent work; what was typed meanwhile."""
        self._keyboard.typed = ""
        with self._keyboard.watching():
            self._view.start()
            self._turn = asyncio.ensure_future(self._run(text))
            try:
                self._ended(await self._turn)
            except asyncio.CancelledError:
                if (task := self._task) and task.cancelling():
                    raise
                self._end_view()
                self._view.note(ENDINGS["cancelled"])
            except OutriderError as error:
                self._end_view()
                self._view.problem(str(error))
            finally:
                self._end_view()
        return self._keyboard.typed

    async def _run(self, text: str) -> RunResult:
        await self._ready()
        session = self._current.open()
        self._view.store = session.store
        said: list[str | Attachment] = []
        if text:  # files that were given with --attach go once, with the first words
            said, self._attached = with_files(text, self._current.folder, self._attached), ()
        self._view.write(styled(f"▣ {plain(part.label)}", CYAN) for part in said if isinstance(part, Attachment))
        for name in missing_files(text, self._current.folder):
            self._view.dim(f"There is no file {name}: it is sent as words.")
        return await session.run(said)

    def _ended(self, result: RunResult) -> None:
        self._end_view()
        if result.status == "error":
            self._view.problem(result.error)
        elif said := ENDINGS.get(result.status):
            self._view.note(said)

    def _end_view(self) -> None:
        self._turn = None
        self._view.stop()

    # Whom it hears

    def _observe(self, event: Event) -> None:
        if isinstance(event, MessageAdded) and event.usage:
            self._status.used(event.usage)
        self._view.show(event)

    async def _ask(self, question: Question) -> Answer:
        return await self._asker(question)

    def _interrupt(self, by_control_c: bool) -> None:
        """Stop the turn; the second Ctrl-C in a row leaves."""
        if self._interrupted and by_control_c:
            self._end()
        self._interrupted = by_control_c
        if self._turn:
            self._turn.cancel()

    def _end(self) -> None:
        if self._task:
            self._task.cancel()

    def _next_mode(self) -> None:
        self._current.use_mode(MODES[(MODES.index(self._current.mode) + 1) % len(MODES)])

    # Beginning and end

    def _prepare(self) -> None:
        """What takes a moment: imports, tools, the sandbox."""
        rendered("*warm*", 80)
        self._current.prepare()
        self._status.sandbox = "sandboxed" if self._current.bench.sandbox else "no sandbox"

    def _is_prepared(self, done: asyncio.Future[None]) -> None:
        """On the loop, never in the thread that prepared: there the line may end while it is being drawn."""
        if not done.cancelled() and not done.exception():  # what went wrong is told when it is needed
            self._editor.refresh()

    async def _ready(self) -> None:
        assert self._prepared
        await asyncio.shield(self._prepared)
        if not self._is_told:
            self._is_told = True
            for note in self._current.bench.notes:
                self._view.note(note)

    def _greet(self) -> None:
        where = plain(home_relative(self._current.folder))
        self._view.write([f"{styled('Outrider', BOLD)} {styled(f'{__version__} in {where}', DIM)}"])
        mode = self._current.mode
        self._view.dim(f"Permissions: {mode}. {MODE_WORDS[mode]} /help shows what can be typed.")
        if _is_without_key(self._current.model_name):
            self._view.note("No key is set: the built-in demo model answers, which is not an LLM. See outrider doctor.")
        for note in self._loaded.notes:
            self._view.note(note)
        if self._loaded.waiting:
            self._view.note(str(self._loaded.waiting))
        self._view.write([""])

    def _farewell(self) -> None:
        session = self._current.session
        has_said = session is not None and session.history.last is not None
        with contextlib.suppress(OutriderError):
            self._current.close()
        if session and has_said:
            self._view.dim(f"outrider --resume {session.id[:8]} goes on here.")


def _is_without_key(model: str) -> bool:
    """Whether the demo model will answer for want of another. To be sure takes long; this is soon known, and near."""
    from outrider.providers import tiers
    from outrider.providers.secrets import MODEL_KEYS

    return model in tiers.TIERS and not tiers.override_of(model) and not any(map(os.environ.get, MODEL_KEYS))


def _is_command(text: str) -> bool:
    """Whether it is said to the chat; a path at the beginning of a sentence is not."""
    word = text.split(maxsplit=1)[0] if text else ""
    return word.startswith("/") and "/" not in word[1:] and not os.path.lexists(word)
