"""The input line of the chat: history, multiple lines, completion, and a status line below it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app, run_in_terminal
from prompt_toolkit.application.current import set_app
from prompt_toolkit.buffer import Buffer, CompletionState
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import DummyHistory, History, InMemoryHistory
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent, merge_key_bindings
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout.processors import PasswordProcessor
from prompt_toolkit.styles import Style

from outrider.cli.chat.completion import ChatCompleter, ServerNames
from outrider.cli.chat.pastes import Clipboard, PasteHistory, Pastes, dropped_files, mention
from outrider.cli.chat.picker import ScreenOutput
from outrider.cli.styles import BOLD, CYAN, DIM, styled
from outrider.cli.user_programs import edit_file, page
from outrider.coding.toolbox.search.ripgrep import file_names
from outrider.errors import OutriderError
from outrider.processes.programs import Programs
from outrider.processes.signals import suspend

if TYPE_CHECKING:
    from outrider.mcp.running import RunningServers

PROMPT = styled("› ", BOLD, CYAN)
CONTINUATION = styled("· ", DIM)
ESCAPE_SECONDS = 0.05
"""How long to wait after an Escape for the rest of a key sequence."""
_IS_WRITING = ContextVar("is writing", default=False)
"""Whether lines are written above the one that is being edited."""


@dataclass(frozen=True)
class Actions:
    """What keys do outside of the line."""

    next_mode: Callable[[], None]
    show_output: Callable[[], str]
    """Returns the text that Ctrl-O opens."""
    say: Callable[[str], None]
    """Writes a remark."""


class LineInterrupted(Exception):  # noqa: N818 - not an error: the program has something to do before
    """The chat has something to do before the user finishes the line."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        """What the user has typed so far."""


class LineEditor:
    """Reads the user's next message."""

    def __init__(
        self,
        folder: Path,
        programs: Programs,
        history: Path,
        commands: Callable[[], Mapping[str, str]],
        status: Callable[[int], str],
        actions: Actions,
        servers: Callable[[], RunningServers | None] = lambda: None,
        *,
        vi_keys: bool = False,
    ) -> None:
        self._pastes = Pastes()
        self._clipboard = Clipboard(os.environ, programs)
        self.list_files: Callable[[], list[str]] = lambda: file_names(programs, folder)
        """Returns the files that Tab completes."""
        self._session: PromptSession[str] = PromptSession(
            message=ANSI(PROMPT),
            multiline=True,
            prompt_continuation=ANSI(CONTINUATION),
            history=_history(history, self._pastes),
            completer=ChatCompleter(folder, lambda: self.list_files(), commands, ServerNames(servers)),
            complete_in_thread=True,
            complete_while_typing=True,
            key_bindings=merge_key_bindings(
                [
                    _line_bindings(),
                    _action_bindings(actions, programs),
                    _paste_bindings(self._pastes, self._clipboard, lambda text: self.above(lambda: actions.say(text))),
                ]
            ),
            bottom_toolbar=lambda: ANSI(styled(status(get_terminal_size().columns), DIM)),
            style=Style.from_dict({"bottom-toolbar": "noreverse", "completion-menu": "bg:default fg:default"}),
            editing_mode=EditingMode.VI if vi_keys else EditingMode.EMACS,
            enable_open_in_editor=True,
            reserve_space_for_menu=5,
            input=_input(),
            output=ScreenOutput.from_pty(sys.stdout),
        )
        self._session.app.ttimeoutlen = ESCAPE_SECONDS
        # prompt_toolkit itself would look for the editor on the whole PATH, also in the project.
        self._session.default_buffer._open_file_in_editor = partial(edit_file, programs=programs)  # type: ignore[method-assign]

    async def read(self, default: str = "", unless: Callable[[], bool] = lambda: False) -> str:
        """Return the next text.

        Raises KeyboardInterrupt on Ctrl-C, EOFError on Ctrl-D in an empty line, and LineInterrupted after `interrupt`
        or if `unless` is true when the line is ready.
        """
        default = self._pastes.collapse(default)
        text = await self._session.prompt_async(
            default=default, handle_sigint=False, pre_run=lambda: self.interrupt() if unless() else None
        )
        return self._pastes.expand(text)

    def interrupt(self) -> None:
        """Let the read that goes on, if any, raise LineInterrupted with what the user has typed."""
        app = self._session.app
        if app.future and not app.future.done():
            app.exit(exception=LineInterrupted(self._pastes.expand(self._session.default_buffer.text)))

    def type_ahead(self, text: str) -> None:
        """Let the next line begin with keys that the user has typed before it."""
        keys: list[KeyPress] = []
        parser = Vt100Parser(keys.append)
        parser.feed_and_flush(text)
        store_typeahead(self._session.app.input, keys)

    def refresh(self) -> None:
        """Redraw the status line. Call this in the event loop's thread."""
        self._session.app.invalidate()

    def above(self, write: Callable[[], None]) -> None:
        """Write lines above the one that is being edited. Call this in the event loop's thread."""
        app = self._session.app
        if not app.is_running:
            write()
            return
        writing = _IS_WRITING.set(True)
        with set_app(app):
            run_in_terminal(write)
        _IS_WRITING.reset(writing)

    def close(self) -> None:
        """Delete the pictures that were pasted."""
        self._clipboard.close()

    @property
    def cancelled_text(self) -> str:
        """Return the text of the line when Ctrl-C was pressed."""
        return self._session.default_buffer.text


def _input() -> Input:
    """Return the keys of the terminal, which stays as it is while lines are written above the one that is being edited.

    It would turn an Enter of that moment into a line break, and the text would not be sent.
    """
    keys = create_input()
    usual = keys.cooked_mode

    def cooked_mode() -> AbstractContextManager[None]:
        return nullcontext() if _IS_WRITING.get() else usual()

    keys.cooked_mode = cooked_mode  # type: ignore[method-assign]
    escape = _LoneEscape(keys)
    keys.read_keys, keys.flush_keys = escape.read_keys, escape.flush_keys  # type: ignore[method-assign]
    return keys


class _LoneEscape:
    """Ends an Escape that was pressed alone: prompt_toolkit would take a later key for Alt and that key.

    Alt and a key arrive together. A second Escape still counts as Esc Esc.
    """

    def __init__(self, keys: Input) -> None:
        self._read, self._flush = keys.read_keys, keys.flush_keys
        self._is_last = False
        """Whether the last key was an Escape alone."""

    def read_keys(self) -> list[KeyPress]:
        """Return the keys that have arrived."""
        return self._apart(self._read())

    def flush_keys(self) -> list[KeyPress]:
        """Return the keys that might have begun a sequence: nothing has followed them."""
        found = self._flush()
        if [each.key for each in found] != [Keys.Escape]:
            return self._apart(found)
        self._is_last = True
        return found

    def _apart(self, found: list[KeyPress]) -> list[KeyPress]:
        if not found or not self._is_last:
            return found
        self._is_last = False
        return [KeyPress(Keys.Ignore, ""), *found]


def _line_bindings() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        state = buffer.complete_state
        if state and state.current_completion:
            buffer.apply_completion(state.current_completion)
        elif buffer.document.text_before_cursor.endswith("\\"):  # as in a shell, the text continues on the next line
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    @keys.add("c-j")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("tab")
    async def _(event: KeyPressEvent) -> None:
        await _complete(event.current_buffer)

    return keys


def _action_bindings(actions: Actions, programs: Programs) -> KeyBindings:
    keys = KeyBindings()

    @keys.add("escape", "escape")
    def _(event: KeyPressEvent) -> None:
        if not event.current_buffer.text:
            event.current_buffer.text = "/rewind"
            event.current_buffer.validate_and_handle()

    @keys.add("s-tab")
    def _(event: KeyPressEvent) -> None:
        actions.next_mode()
        event.app.invalidate()

    @keys.add("c-l")
    def _(event: KeyPressEvent) -> None:
        event.app.renderer.clear()

    @keys.add("c-z")
    def _(event: KeyPressEvent) -> None:
        run_in_terminal(suspend)

    @keys.add("c-o")
    def _(event: KeyPressEvent) -> None:
        event.app.create_background_task(_page(actions.show_output(), programs))

    return keys


async def _complete(buffer: Buffer) -> None:
    """Take the first completion, or the next one. Completions that are being collected while typing are not awaited."""
    if buffer.complete_state and buffer.complete_state.completions:
        buffer.complete_next()
        return
    document = buffer.document
    requested = CompleteEvent(completion_requested=True)
    found = await asyncio.to_thread(lambda: list(buffer.completer.get_completions(document, requested)))
    if found and buffer.document == document:
        buffer.complete_state = CompletionState(document, found)
        buffer.go_to_completion(0)


async def _page(text: str, programs: Programs) -> None:
    await run_in_terminal(lambda: page(text, programs), in_executor=True)


def _paste_bindings(pastes: Pastes, clipboard: Clipboard, say: Callable[[str], None]) -> KeyBindings:
    keys = KeyBindings()

    @keys.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        text = event.data.replace("\r\n", "\n").replace("\r", "\n")
        if files := dropped_files(text):
            text = "".join(f"{mention(file)} " for file in files)
        event.current_buffer.insert_text(pastes.collapse(text))

    @Condition
    def is_after_paste() -> bool:
        return bool(pastes.at_end(get_app().current_buffer.document.text_before_cursor))

    @keys.add("backspace", filter=is_after_paste)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        buffer.delete_before_cursor(len(pastes.at_end(buffer.document.text_before_cursor)))

    @keys.add("c-v")
    async def _(event: KeyPressEvent) -> None:
        try:
            picture = await asyncio.to_thread(clipboard.picture)
        except OutriderError as error:
            say(str(error))
        else:
            event.current_buffer.insert_text(f"{mention(picture)} ")

    @keys.add("c-g")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        buffer.text = pastes.expand(buffer.text)
        buffer.open_in_editor()

    return keys


def _history(file: Path, pastes: Pastes) -> History:
    """Return the history of typed lines, in a private file; in memory if the file cannot be created."""
    try:
        from outrider.filesystem import make_private

        make_private(file.parent)
        os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError:
        return InMemoryHistory()
    return PasteHistory(file, pastes)


async def read_secret(prompt: str) -> str:
    """Return a line that is neither shown nor stored; empty if the user leaves it."""
    hidden: PromptSession[str] = PromptSession(
        input_processors=[PasswordProcessor("")],
        input=_input(),
        output=ScreenOutput.from_pty(sys.stdout),
        history=DummyHistory(),
    )
    hidden.app.ttimeoutlen = ESCAPE_SECONDS
    try:
        return (await hidden.prompt_async(prompt, handle_sigint=False)).strip()
    except (KeyboardInterrupt, EOFError):
        return ""
