"""What other processes can do with the session of a chat."""

from __future__ import annotations

import asyncio

from outrider.cli.chat.current_session import CurrentSession
from outrider.cli.chat.line_editor import LineEditor
from outrider.cli.chat.session_view import SessionView
from outrider.cli.chat.steering import ChatSteering
from outrider.cli.chat.turn import TurnRunner
from outrider.coding.permissions.question import Mode
from outrider.text.visible import safe_line


class ChatFront:
    """Answers, messages and stops from elsewhere, as if the user had typed them here. Implements `Front`."""

    place = "in the terminal"

    def __init__(
        self, current: CurrentSession, view: SessionView, turn: TurnRunner, steering: ChatSteering, editor: LineEditor
    ) -> None:
        self._current = current
        self._view = view
        self._turn = turn
        self._steering = steering
        self._editor = editor
        self._said: list[str] = []
        """Messages that each begin a turn."""
        self._handling: list[asyncio.Future[None]] = []

    def answered(self, text: str) -> None:
        """Show that a question was answered elsewhere."""
        self._view.dim(safe_line(text))

    def use_mode(self, mode: Mode) -> None:
        """Change the permission mode."""
        self._current.use_mode(mode)

    async def say(self, text: str) -> None:
        """Queue the text for the turn that goes on, or let the chat begin one. Return when the chat waits again."""
        if self._turn.is_running:
            self._steering.send(text)
        else:
            self._said.append(text)
            self._editor.interrupt()
        handled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._handling.append(handled)
        await handled

    def all_handled(self) -> None:
        """The chat waits for the next line: it is done with all messages."""
        for handled in self._handling:
            if not handled.done():
                handled.set_result(None)
        self._handling.clear()

    def stop(self) -> None:
        """Cancel the turn that goes on."""
        self._turn.interrupt(False)

    def has_message(self) -> bool:
        """Return whether a message waits that begins a turn."""
        return bool(self._said)

    def next_message(self) -> str:
        """Take a message that begins a turn."""
        return self._said.pop(0)
