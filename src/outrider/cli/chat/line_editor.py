"""The input line of the chat: history, multiple lines, completion, and a status line below it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.styles import Style

from outrider.cli.chat.completion import ChatCompleter
from outrider.cli.chat.server_names import ServerNames
from outrider.cli.styles import BOLD, CYAN, DIM, fit, styled

if TYPE_CHECKING:
    from outrider.mcp.running import RunningServers

PROMPT = styled("› ", BOLD, CYAN)
CONTINUATION = styled("· ", DIM)


class LineEditor:
    """Reads the user's next message."""

    def __init__(
        self,
        folder: Path,
        history: Path,
        commands: Mapping[str, str],
        status: Callable[[], str],
        next_mode: Callable[[], None],
        servers: Callable[[], RunningServers | None] = lambda: None,
    ) -> None:
        self._session: PromptSession[str] = PromptSession(
            message=ANSI(PROMPT),
            multiline=True,
            prompt_continuation=ANSI(CONTINUATION),
            history=_history(history),
            completer=ChatCompleter(folder, commands, ServerNames(servers)),
            complete_in_thread=True,
            complete_while_typing=True,
            key_bindings=_bindings(next_mode),
            bottom_toolbar=lambda: ANSI(styled(fit(status(), get_terminal_size().columns), DIM)),
            style=_style(),
            enable_open_in_editor=True,
            enable_suspend=True,
            reserve_space_for_menu=5,
        )

    async def read(self, default: str = "") -> str:
        """Return the next text. Raises KeyboardInterrupt on Ctrl-C and EOFError on Ctrl-D in an empty line."""
        return await self._session.prompt_async(default=default, handle_sigint=False)

    def refresh(self) -> None:
        """Redraw the status line. Call this in the event loop's thread."""
        self._session.app.invalidate()

    @property
    def cancelled_text(self) -> str:
        """Return the text of the line when Ctrl-C was pressed."""
        return self._session.default_buffer.text


def _bindings(next_mode: Callable[[], None]) -> KeyBindings:
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

    @keys.add("escape", "escape")
    def _(event: KeyPressEvent) -> None:
        if not event.current_buffer.text:
            event.current_buffer.text = "/rewind"
            event.current_buffer.validate_and_handle()

    @keys.add("s-tab")
    def _(event: KeyPressEvent) -> None:
        next_mode()
        event.app.invalidate()

    @keys.add("c-l")
    def _(event: KeyPressEvent) -> None:
        event.app.renderer.clear()

    return keys


def _style() -> Style:
    return Style.from_dict({"bottom-toolbar": "noreverse", "completion-menu": "bg:default fg:default"})


def _history(file: Path) -> History:
    """Return the history of typed lines, in a private file; in memory if the file cannot be created."""
    try:
        from outrider.filesystem import make_private

        make_private(file.parent)
        os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(file))
