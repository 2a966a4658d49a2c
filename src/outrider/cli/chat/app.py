"""The chat application: reads a line, runs the agent, and draws both in the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from outrider.cli.chat.commands import Commands, Compact, Next, Page, Pick, Rewind
from outrider.cli.chat.current_session import CurrentSession, history_file, home_relative
from outrider.cli.chat.elicitation_prompt import ElicitationPrompt
from outrider.cli.chat.inline_images import image_protocol
from outrider.cli.chat.keyboard import Keyboard
from outrider.cli.chat.line_editor import PROMPT, Actions, LineEditor
from outrider.cli.chat.markdown import rendered
from outrider.cli.chat.mentions import mentioned_folders, missing_files, with_mentioned_files
from outrider.cli.chat.pager import page
from outrider.cli.chat.past_calls import last_turn, stored_details, whole_output
from outrider.cli.chat.permission_prompt import PermissionPrompt
from outrider.cli.chat.picker import pick
from outrider.cli.chat.session_view import SessionView
from outrider.cli.chat.shell_command import as_message, run_shell_command
from outrider.cli.chat.signals import LONG_TURN_SECONDS, notify
from outrider.cli.chat.status_line import StatusLine
from outrider.cli.chat.steering import ChatSteering
from outrider.cli.live_region import LiveRegion
from outrider.cli.sanitize import safe_line, safe_lines
from outrider.cli.sources import has_links
from outrider.cli.styles import BOLD, CYAN, DIM, styled
from outrider.coding import sentences
from outrider.coding.config.loading import Loaded
from outrider.coding.mcp.mentions import mentioned_resources, with_resources
from outrider.coding.mcp.prompts import is_prompt, prompt_parts
from outrider.coding.permissions.question import MODES, Answer, Question
from outrider.conversation.attachments import Attachment
from outrider.errors import OutriderError
from outrider.providers.base import EffortChoice
from outrider.runtime.events import Compacted, Event, MessageAdded
from outrider.runtime.run import ENDINGS, RunResult
from outrider.version import __version__

if TYPE_CHECKING:
    from outrider.mcp.elicitation import Elicitation, ElicitationAnswer


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
        self._attachments = attachments
        self._current = CurrentSession(loaded.settings, folder, model, self._observe, self._ask, effort, self._elicit)
        self._status = StatusLine(self._current)
        self._view = SessionView(
            LiveRegion(sys.stdout),
            folder,
            show_thinking=loaded.settings.chat.show_thinking,
            pictures=image_protocol(os.environ),
            links=has_links(os.environ),
            light=light,
        )
        self._view.status = self._status
        self._view.typed = lambda: self._keyboard.typed
        self._commands = Commands(self._current, self._view)
        self._steering = ChatSteering(lambda: self._current.session, self._prompt, self._view.problem)
        self._view.queued = self._steering.lines
        self._keyboard = Keyboard(self._interrupt, self._send, lambda: self._steering.take_back(self._give_back))
        self._permission_prompt = PermissionPrompt(
            self._view, self._keyboard, folder, self._interrupt, lambda: self._current.mode, self._current.use_mode
        )
        self._elicitation_prompt = ElicitationPrompt(self._view, self._keyboard, self._interrupt)
        self._one_question = asyncio.Lock()
        self._editor = LineEditor(
            folder,
            history_file(),
            lambda: {**self._current.prompt_commands, **self._commands.descriptions},
            self._status,
            Actions(self._next_mode, self._whole_output),
            lambda: self._current.servers,
            vi_keys=loaded.settings.chat.vi_keys,
        )
        self._commands_run: list[str] = []
        """What the agent must still be told about the user's own commands."""
        self._prepared: asyncio.Future[None] | None = None
        self._notes_shown = False
        """Whether the notes of the workbench were shown."""
        self._task: asyncio.Task[None] | None = None
        self._turn: asyncio.Future[RunResult | None] | None = None
        self._cancelled: WeakSet[asyncio.Future[Any]] = WeakSet()
        """Turns that the user has cancelled."""
        self._interrupted = False
        """Whether the user was told that the next Ctrl-C exits."""

    async def run(self, first: str = "", resume: str | None = None, typed: str = "") -> None:
        """Run the chat until the user exits. `typed` are the keys that the user has pressed already."""
        if typed:
            self._editor.type_ahead(typed)
        self._task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._exit)
        loop.add_signal_handler(signal.SIGINT, self._interrupt, True)
        self._greet()
        self._prepared = loop.run_in_executor(None, self._prepare)
        self._prepared.add_done_callback(self._on_prepared)
        try:
            if resume:
                await self._ready()
                self._commands.show_session(self._current.go_to(resume))
            if first:
                self._show_message(first)
            await self._read_and_answer(await self._answer(first) if first else "")
        except asyncio.CancelledError:
            pass  # the terminal was closed, or the user exits
        finally:
            self._close()

    # The conversation

    async def _read_and_answer(self, typed: str) -> None:
        while True:
            try:
                text = (await self._editor.read(typed)).strip()
                self._interrupted, typed = False, ""
                if _is_command(text) and not await self._is_prompt(text):
                    next_step = await self._run_command(text)
                    if next_step == "exit":
                        return
                    typed = await self._follow(next_step)
                elif text.startswith("!") and text[1:].strip():
                    typed = await self._work(self._run_shell_command(text[1:].strip()))
                elif text:
                    typed = await self._answer(text)
            except KeyboardInterrupt:
                typed = ""
                if self._should_exit():
                    return
            except EOFError:
                return

    async def _is_prompt(self, text: str) -> bool:
        """Return whether the text is `/server:prompt` of a server, or calls a command or skill of the user."""
        if self._commands.has(text):
            return False
        with contextlib.suppress(OutriderError):  # shown when the result is needed
            await self._ready()
            return is_prompt(text, self._current.servers) or self._current.bench.prompt_commands.has(text)
        return False

    async def _run_command(self, text: str) -> Next:
        try:
            await self._ready()
        except OutriderError as error:  # preparation failed; some commands work nevertheless
            self._view.problem(str(error))
        return self._commands.run(text)

    async def _follow(self, next_step: Next) -> str:
        """Do what follows a command. Return what the user typed meanwhile."""
        if isinstance(next_step, Compact):
            return await self._work(self._compact(next_step.focus))
        if isinstance(next_step, Rewind):
            return await self._rewind(next_step)
        if isinstance(next_step, Page):
            page(next_step.text)
            return ""
        if isinstance(next_step, Pick):
            await self._pick(next_step)
            return ""
        return await self._answer("") if next_step else ""

    async def _pick(self, wanted: Pick) -> None:
        if (value := await pick(wanted.title, wanted.choices)) is not None:
            try:
                wanted.take(value)
            except OutriderError as error:
                self._view.problem(str(error))

    async def _run_shell_command(self, command: str) -> None:
        """Run a command of the user. Its output goes with the next message."""
        code, output = await run_shell_command(command, self._current.folder, self._view.write)
        self._commands_run.append(as_message(command, code, output))
        self._view.dim("The agent sees this with your next message." if code == 0 else f"Exit code {code}.")

    def _should_exit(self) -> bool:
        """Handle Ctrl-C in the line: clear the line; if it is empty, exit on the second Ctrl-C."""
        if self._interrupted and not self._editor.cancelled_text:
            return True
        self._interrupted = not self._editor.cancelled_text
        if self._interrupted:
            self._view.dim("Press Ctrl-C again to exit.")
        return False

    async def _answer(self, text: str) -> str:
        """Run one turn of the agent, and one for each message that the user sent meanwhile and it did not take.

        Return what the user typed and did not send.
        """
        typed = await self._work(self._run(text))
        while following := await self._steering.next_text():
            self._show_message(following)
            typed += await self._work(self._run(following))
        return typed

    async def _work(self, work: Coroutine[Any, Any, RunResult | None]) -> str:
        """Show the session while it works. Return what the user typed meanwhile."""
        self._keyboard.typed = ""
        ended_well = False
        with self._keyboard.watching():
            self._view.start()
            self._turn = asyncio.ensure_future(work)
            started = time.monotonic()
            try:
                if (result := await self._turn) is not None:
                    self._show_outcome(result)
                ended_well = result is None or result.status not in ("cancelled", "error")
            except asyncio.CancelledError:
                if (task := self._task) and task.cancelling():
                    raise
                self._stop_view()
                self._view.note(ENDINGS["cancelled"])
            except OutriderError as error:
                self._stop_view()
                self._view.problem(str(error))
            finally:
                self._stop_view()
        if time.monotonic() - started >= LONG_TURN_SECONDS:
            self._notify("The turn has ended.")
        offered = "" if ended_well else await self._steering.offered()
        return "\n".join(filter(None, (offered, self._keyboard.typed)))

    def _notify(self, text: str) -> None:
        notify(sys.stdout, self._loaded.settings.chat.notify, f"Outrider: {text}")

    async def _run(self, text: str) -> RunResult:
        await self._ready()
        session = self._current.open()
        self._view.store = session.store
        prompt = [*await self._prompt(text), *self._take_commands_run()] if text else []
        self._view.write(styled(f"▣ {safe_line(part.label)}", CYAN) for part in prompt if isinstance(part, Attachment))
        return await session.run(prompt)

    def _take_commands_run(self) -> list[str]:
        taken, self._commands_run = self._commands_run, []
        return taken

    async def _compact(self, focus: str) -> None:
        """Summarise the conversation; the view shows the event."""
        await self._current.open().compact(focus)

    async def _rewind(self, wanted: Rewind) -> str:
        """Rewind the session, or show what that would do. Return the message to write anew, after a rewind."""
        from outrider.cli.chat.rewinding import rewind

        try:
            return await rewind(self._current.open(), self._view, wanted)
        except OutriderError as error:
            self._view.problem(str(error))
            return ""

    async def _prompt(self, text: str) -> list[str | Attachment]:
        """Return the message: a text with the files and resources that it mentions, or a prompt of a server."""
        servers = self._current.servers
        more, self._attachments = self._attachments, ()  # files from --attach are sent once, with the first message
        if servers and is_prompt(text, servers):
            return [*await prompt_parts(text, servers), *more]
        if self._current.bench.prompt_commands.has(text) and not self._commands.has(text):
            return [*await self._current.bench.prompt_commands.parts(text), *more]
        known = [server.name for server in servers.servers] if servers else []
        resources = [f"{each.server}:{each.uri}" for each in mentioned_resources(text, known)]
        for name in missing_files(text, self._current.folder):
            if name not in resources:
                self._view.dim(f"No file {name}: sent as text.")
        for name in mentioned_folders(text, self._current.folder):
            self._view.dim(f"{name} is a folder: the agent sees its name, and lists it if it needs to.")
        return await with_resources(with_mentioned_files(text, self._current.folder, more), servers)

    def _show_outcome(self, result: RunResult) -> None:
        self._stop_view()
        if result.status == "error":
            self._view.problem(result.error)
        elif ending := ENDINGS.get(result.status):
            self._view.note(ending)

    def _stop_view(self) -> None:
        self._turn = None
        self._view.stop()

    # Events and keys

    def _observe(self, event: Event) -> None:
        if isinstance(event, MessageAdded) and event.steering:
            self._show_message(event.message.text)
        elif isinstance(event, MessageAdded) and event.usage:
            self._status.used(event.usage.total_tokens)
        elif isinstance(event, Compacted):
            self._status.used(event.tokens_after)
        self._view.show(event)

    def _send(self, line: str) -> bool:
        """Queue a line that was sent during a turn. A command stays in the input: it waits for the end of the turn."""
        if _is_command(line):
            return False
        self._steering.send(line)
        return True

    def _give_back(self, text: str) -> None:
        self._keyboard.typed = text + self._keyboard.typed

    def _show_message(self, text: str) -> None:
        """Write a message of the user that was not typed between turns."""
        self._view.write([f"{PROMPT}{line}" for line in safe_lines(text).split("\n")])

    async def _ask(self, question: Question) -> Answer:
        async with self._one_question:
            self._notify("A question waits for your answer.")
            return await self._permission_prompt(question)

    async def _elicit(self, question: Elicitation) -> ElicitationAnswer:
        """Ask the user for an MCP server. Between turns the user is typing a line, and is not asked."""
        from outrider.mcp.elicitation import ElicitationAnswer

        async with self._one_question:
            return await self._elicitation_prompt(question) if self._turn else ElicitationAnswer("decline")

    def _interrupt(self, by_control_c: bool) -> None:
        """Cancel the turn. If it does not end at once, warn, then exit on the next Ctrl-C."""
        if self._interrupted and by_control_c:
            self._exit()
        elif self._turn and self._turn in self._cancelled:
            if by_control_c:
                self._interrupted = True
                self._view.dim("Press Ctrl-C again to exit.")
        elif self._turn:
            self._cancelled.add(self._turn)
            self._turn.cancel()

    def _exit(self) -> None:
        if self._task:
            self._task.cancel()

    def _whole_output(self) -> str:
        """Return the calls since the user's last message with their whole output, the newest first."""
        session = self._current.session
        messages = last_turn(session.history.tail) if session else ()
        details = stored_details(self._current.log, session.id) if session else {}
        return whole_output(messages, details, self._current.folder, self._view.region.width)

    def _next_mode(self) -> None:
        self._current.use_mode(MODES[(MODES.index(self._current.mode) + 1) % len(MODES)])

    # Start and exit

    def _prepare(self) -> None:
        """Do the slow parts in a thread: imports, tools, the sandbox."""
        rendered("*warm*", 80)  # imports the Markdown renderer
        self._current.prepare()
        self._status.sandbox = "sandboxed" if self._current.bench.sandbox else "no sandbox"

    def _on_prepared(self, done: asyncio.Future[None]) -> None:
        """Redraw the line. This runs on the event loop: in the preparing thread, drawing would race with the editor."""
        if not done.cancelled() and not done.exception():  # an error is reported when the result is needed
            self._editor.refresh()

    async def _ready(self) -> None:
        assert self._prepared
        await asyncio.shield(self._prepared)
        if not self._notes_shown:
            self._notes_shown = True
            bench = self._current.bench
            found = self._current.found_servers
            waiting = f"{found.waiting}; or in this chat: /mcp" if found.waiting else ""
            for note in filter(None, (bench.sandbox_note, *bench.notes, *found.notes, waiting)):
                self._view.note(note)

    def _greet(self) -> None:
        where = safe_line(home_relative(self._current.folder))
        self._view.write([f"{styled('Outrider', BOLD)} {styled(f'{__version__} in {where}', DIM)}"])
        self._view.dim(f"{sentences.mode_is(self._current.mode)} Type /help for commands and keys.")
        if self._status.is_demo_expected:
            self._view.note(sentences.DEMO_ANSWERS)
        for note in self._loaded.notes:
            self._view.note(note)
        if self._loaded.waiting:
            self._view.note(str(self._loaded.waiting))
        self._view.write([""])

    def _close(self) -> None:
        self._editor.close()
        session = self._current.session
        has_messages = session is not None and session.history.last is not None
        with contextlib.suppress(OutriderError):
            self._current.close()
        if session and has_messages:
            self._view.dim(f"To resume this session: outrider --resume {session.id[:8]}")


def _is_command(text: str) -> bool:
    """Return whether the text is a command; a path at the beginning of a sentence is not."""
    word = text.split(maxsplit=1)[0] if text else ""
    return word.startswith("/") and "/" not in word[1:] and not os.path.lexists(word)
