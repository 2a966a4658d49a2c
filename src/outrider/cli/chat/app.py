"""The chat application: reads a line, runs the agent, and draws both in the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

from outrider.cli.chat.commands.command import CommandContext, Dialogue, Exit, Next, Send, Work, Write
from outrider.cli.chat.commands.registry import Commands
from outrider.cli.chat.composer import MessageComposer
from outrider.cli.chat.current_session import CurrentSession, history_file
from outrider.cli.chat.dialogues import Dialogues
from outrider.cli.chat.keyboard import Keyboard
from outrider.cli.chat.line_editor import Actions, LineEditor, LineInterrupted
from outrider.cli.chat.past_messages import OutputPager, show_recent
from outrider.cli.chat.preparation import Preparation, greet
from outrider.cli.chat.session_view import Footer, Look, SessionView
from outrider.cli.chat.status_line import CacheWarning, StatusLine
from outrider.cli.chat.steering import ChatFront, ChatSteering
from outrider.cli.chat.terminal_codes import LONG_TURN_SECONDS, image_protocol, notify
from outrider.cli.chat.turn import TurnRunner
from outrider.cli.live_region import LiveRegion
from outrider.cli.options import resume_command
from outrider.cli.sources import has_links
from outrider.cli.styles import CYAN, YELLOW, fit, styled
from outrider.coding.commands import calls_by_name, looks_like_command
from outrider.coding.config.loading import Loaded
from outrider.coding.front_end import FrontEnd
from outrider.coding.permissions.question import modes_within
from outrider.conversation.attachments import Attachment
from outrider.errors import OutriderError
from outrider.processes.programs import Programs
from outrider.processes.signals import on_signals, suspend
from outrider.providers.base import EffortChoice
from outrider.runtime.events import Compacted, Event, MessageAdded, Notice
from outrider.runtime.run import RunResult
from outrider.text import counted
from outrider.text.visible import safe_line


class Chat:
    """One chat in one terminal. Modules that only an answer needs are imported while the user types."""

    def __init__(
        self,
        loaded: Loaded,
        folder: Path,
        model: str | None,
        attachments: Sequence[Attachment],
        effort: EffortChoice | None = None,
        *,
        light: bool = False,
    ) -> None:
        self._loaded = loaded
        self._programs = Programs(loaded.settings.permissions.working_folders(folder))
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._has_report = False
        self._refused = ""
        """The last command that was not taken during this turn."""
        self._current = CurrentSession(loaded.settings, folder, model, self._observe, effort)
        self._current.has_given_mode = loaded.origins["permissions.mode"].startswith("--")
        self._status = StatusLine(self._current, loaded.settings.chat.status_line)
        look = Look(loaded.settings.chat.show_thinking, image_protocol(os.environ), has_links(os.environ), light)
        self._view = SessionView(LiveRegion(sys.stdout), folder, look)
        self._turn = TurnRunner(self._view, self._exit)
        self._composer = MessageComposer(self._current, self._view, attachments)
        self._preparation = Preparation(self._current, self._view, self._status, loaded.waiting)
        self._commands = Commands(CommandContext(self._current, self._view))
        self._steering = ChatSteering(lambda: self._current.session, self._composer.compose, self._view.problem)
        self._keyboard = self._new_keyboard()
        self._pager = OutputPager(self._current, self._view, self._turn, self._keyboard, self._programs)
        self._view.footer = Footer(self._status, lambda: self._keyboard.typed, self._waiting_lines)
        self._editor = self._new_editor(folder)
        self._dialogues = Dialogues(
            *(self._view, self._keyboard, self._turn, self._editor, folder, lambda: self._current.mode, self._notify)
        )
        self._cache_warning = CacheWarning(lambda text: self._editor.above(lambda: self._view.dim(text)))
        if self._current.place:
            self._editor.list_files = self._current.files_elsewhere
        self._front = ChatFront(self._current, self._view, self._turn, self._steering, self._editor)
        self._current.front_end = self._front_end()
        if command := loaded.settings.chat.status_command:
            from outrider.cli.chat.status_command import StatusCommand

            self._status.command = StatusCommand(command, folder, self._programs, self._editor.refresh)

    def _new_keyboard(self) -> Keyboard:
        return Keyboard(
            self._interrupt,
            self._send,
            self._take_back,
            {"c-o": self._show_steps, "c-b": self._move_to_background, "c-z": self._suspend},
            lambda by: self._view.is_watching and self._view.watch(by),
            sys.stdout,
        )

    def _front_end(self) -> FrontEnd:
        asks = self._dialogues
        return FrontEnd(
            *(asks.ask, asks.elicit, self._on_server_notice, self._front, asks.choose), wake=self._wake, origin="chat"
        )

    def _new_editor(self, folder: Path) -> LineEditor:
        return LineEditor(
            folder,
            self._programs,
            history_file(),
            lambda: {**self._current.prompt_commands, **self._commands.descriptions},
            self._status,
            Actions(self._next_mode, self._pager.text, self._view.note),
            lambda: self._current.servers,
            vi_keys=self._loaded.settings.chat.vi_keys,
        )

    async def run(self, first: str = "", resume: str | None = None, typed: str = "") -> None:
        """Run the chat until the user exits. `typed` are the keys that the user has pressed already."""
        if typed:
            self._editor.type_ahead(typed)
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        with on_signals(self._on_signal):
            await self._run_until_exit(first, resume)

    async def _run_until_exit(self, first: str, resume: str | None) -> None:
        greet(self._loaded, self._current, self._view, self._status)
        self._preparation.start(self._on_prepared)
        try:
            if resume or self._current.place:  # a place that cannot be reached ends the chat
                await self._preparation.finished()
            if resume:
                show_recent(self._current, self._current.go_to(resume), self._view)
            if first:
                self._show_message(first)
            await self._read_and_answer(await self._answer(first) if first else "")
        except asyncio.CancelledError:
            pass  # the terminal was closed, or the user exits
        finally:
            self._close()

    def _on_prepared(self) -> None:
        if servers := self._current.servers:
            servers.answer_here()
        self._editor.refresh()

    # The conversation

    async def _read_and_answer(self, typed: str) -> None:
        while True:
            try:
                typed += await self._answer_messages_from_elsewhere()
                self._front.all_handled()
                text = (await self._editor.read(typed, self._is_called)).strip()
                self._turn.line_was_read()
                typed = await self._work(self._dialogues.ask_all()) if self._dialogues.has_waiting else ""
                if looks_like_command(text) and not await self._is_prompt(text):
                    next_step = await self._run_command(text)
                    if isinstance(next_step, Exit):
                        return
                    typed += await self._follow(next_step)
                elif text.startswith("!") and text[1:].strip():
                    await self._composer.run_command(text[1:].strip())
                elif text:
                    typed += await self._answer(text)
            except LineInterrupted as interrupted:
                typed = interrupted.text
            except KeyboardInterrupt:
                typed = ""
                if self._turn.line_was_cancelled(self._editor.cancelled_text):
                    return
            except EOFError:
                return

    async def _answer_messages_from_elsewhere(self) -> str:
        """Run a turn for each message that another process has sent, and one for reports of sub-agents.

        Return what the user typed meanwhile.
        """
        typed = ""
        while self._is_called():
            self._has_report = False
            message = self._front.next_message() if self._front.has_message() else ""
            if message:
                self._show_message(message)
            if message or self._current.has_news:
                typed += await self._answer(message)
        return typed

    def _is_called(self) -> bool:
        return self._has_report or self._front.has_message()

    def _wake(self) -> None:
        """Let the model read the report of a sub-agent in the background, unless a turn does so anyway."""
        self._has_report = True
        if not self._turn.is_running:
            self._editor.interrupt()

    async def _is_prompt(self, text: str) -> bool:
        """Return whether the text is `/server:prompt` of a server, or calls a command or skill of the user."""
        if self._commands.has(text):
            return False
        with contextlib.suppress(OutriderError):  # shown when the result is needed
            await self._preparation.finished()
            return calls_by_name(text, self._current.bench.prompt_commands, self._current.servers)
        return False

    async def _run_command(self, text: str) -> Next:
        with self._showing_problems():  # if preparation fails, some commands work nevertheless
            await self._preparation.finished()
        return self._commands.run(text)

    @contextlib.contextmanager
    def _showing_problems(self) -> Iterator[None]:
        try:
            yield
        except OutriderError as error:
            self._view.problem(error)

    async def _follow(self, next_step: Next) -> str:
        """Do what follows a command. Return what the user typed meanwhile."""
        match next_step:
            case Send(text=text):
                if text:
                    self._show_message(text)
                return await self._answer(text)
            case Write(text=text):
                return text
            case Work(work=work):
                return await self._work(work)
            case Dialogue(work=dialogue):
                with self._showing_problems():
                    return await self._follow(await dialogue)
        return ""

    async def _answer(self, text: str) -> str:
        """Run one turn of the agent, and one for each message that the user sent meanwhile and it did not take.

        Return what the user typed and did not send.
        """
        typed = await self._work(self._run(text))
        while following := await self._steering.next_text():
            self._show_message(following)
            typed += await self._work(self._run(following))
        return typed

    async def _answered(self, work: Coroutine[Any, Any, RunResult | None]) -> RunResult | None:
        """Do the work of a turn, which ends no earlier than what a sub-agent in the background asks meanwhile."""
        result = await work
        async with self._dialogues.one_question:
            return result

    async def _work(self, work: Coroutine[Any, Any, RunResult | None]) -> str:
        """Show the session while it works. Return what the user typed meanwhile."""
        self._keyboard.typed = self._refused = ""
        self._cache_warning.stop()
        with self._keyboard.watching():
            ended_well = await self._turn.run(self._answered(work))
            await self._pager.closed()
        self._cache_warning.start(self._current.session)
        if self._turn.seconds >= LONG_TURN_SECONDS:
            self._notify("The turn has ended.")
        if self._dialogues.permission.take_denial():
            self._view.note("What should it do instead?")
        offered = "" if ended_well else await self._steering.offered()
        return "\n".join(filter(None, (offered, self._keyboard.typed)))

    def _notify(self, text: str) -> None:
        notify(sys.stdout, self._loaded.settings.chat.notify, f"Outrider: {text}")

    async def _run(self, text: str) -> RunResult:
        await self._preparation.finished()
        session = self._current.open()
        self._view.store = session.store
        prompt = [*await self._composer.compose(text), *self._composer.take_outputs()] if text else []
        self._view.write(styled(f"▣ {safe_line(part.label)}", CYAN) for part in prompt if isinstance(part, Attachment))
        return await session.run(prompt or "")

    # Events and keys

    def _observe(self, event: Event) -> None:
        if isinstance(event, MessageAdded) and event.steering:
            self._show_message(event.message.text)
            self._view.write([""])
        elif isinstance(event, MessageAdded) and event.usage and event.usage.context:
            self._status.used(event.usage.context)
            self._cache_warning.reply_came()
        elif isinstance(event, Compacted):
            self._status.used(event.tokens_after)
        self._view.show(event)

    def _send(self, line: str) -> bool:
        """Queue a line that was sent during a turn. A command stays in the input: it waits for the end of the turn."""
        if looks_like_command(line):
            self._refused = line
            return False
        self._steering.send(line)
        return True

    def _waiting_lines(self, width: int) -> Iterator[str]:
        """Yield the queued messages, and what keeps a command in the line, until the line changes."""
        yield from self._steering.lines(width)
        if self._refused and self._refused == self._keyboard.typed.strip():
            yield styled(fit("Commands can be sent when this has ended; Esc ends it now.", width), YELLOW)

    def _take_back(self) -> None:
        def give(text: str) -> None:
            self._keyboard.typed = text + self._keyboard.typed

        self._steering.take_back(give)

    def _show_message(self, text: str) -> None:
        """Write a message of the user that was not typed between turns."""
        self._view.write(self._view.message_lines(text))

    def _on_server_notice(self, text: str) -> None:
        """Show what happens to an MCP server. Called in the thread of the servers."""
        with contextlib.suppress(RuntimeError):  # the chat has ended
            if self._loop:
                self._loop.call_soon_threadsafe(self._show_server_notice, text)

    def _show_server_notice(self, text: str) -> None:
        if self._turn.is_running:
            self._view.show(Notice(text))
        else:
            self._editor.above(lambda: self._view.note(text))

    def _exit(self) -> None:
        if self._task:
            self._task.cancel()

    def _interrupt(self, by_control_c: bool) -> None:
        """Cancel the turn; Esc first goes back from the steps of a sub-agent."""
        if by_control_c or not self._view.leave():
            self._turn.interrupt(by_control_c)

    def _show_steps(self) -> None:
        """Show the steps of a running sub-agent; if they are shown already, or there is none, the whole output."""
        if self._view.is_watching or not self._view.watch():
            self._pager.open()

    def _move_to_background(self) -> None:
        """Let the commands that the agent waits for go on in the background, and the agent with them."""
        if not self._current.background.move_running():
            self._view.dim("No command runs that can be moved to the background.")

    def _suspend(self) -> None:
        """Stop this program, as Ctrl-Z does everywhere. Commands of the agent go on; `fg` continues."""
        with self._keyboard.paused(), self._view.region.held():
            suspend()
        self._view.draw()

    def _on_signal(self, number: signal.Signals) -> None:
        if number != signal.SIGINT:
            self._current.keep_question()
            self._exit()
        elif not self._keyboard.is_paused:  # else it is for the pager
            self._turn.interrupt(True)

    def _next_mode(self) -> None:
        modes = modes_within(self._current.max_mode)
        self._current.use_mode(modes[(modes.index(self._current.mode) + 1) % len(modes)])

    def _close(self) -> None:
        self._editor.close()
        session = self._current.session
        has_messages = session is not None and session.history.last is not None
        stopped = len(session.background.working) if session else 0
        with contextlib.suppress(OutriderError):
            self._current.close()
        if stopped:
            self._view.dim(f"{counted(stopped, 'sub-agent')} in the background stopped; nothing is lost.")
        if session and has_messages:
            self._view.dim(f"To resume this session: {resume_command(session.id, self._current.place)}")
