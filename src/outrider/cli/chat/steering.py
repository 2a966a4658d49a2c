"""Messages for the session of a chat from the keyboard during a turn, and from other processes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from outrider.cli.chat.current_session import CurrentSession
from outrider.cli.chat.line_editor import LineEditor
from outrider.cli.chat.session_view import SessionView
from outrider.cli.chat.turn import TurnRunner
from outrider.cli.styles import DIM, fit, styled
from outrider.coding.permissions.question import Mode
from outrider.errors import ConversationError, OutriderError
from outrider.text.visible import safe_line

if TYPE_CHECKING:
    from outrider.conversation.prompt import Prompt
    from outrider.runtime.session import Session
    from outrider.runtime.steering import QueuedMessage


class ChatSteering:
    """Queues what the user types during a turn. What no run can take becomes the next message."""

    def __init__(
        self,
        session: Callable[[], Session | None],
        prompt: Callable[[str], Awaitable[Prompt]],
        problem: Callable[[str], None],
    ) -> None:
        self._session = session
        self._prompt = prompt
        """Returns the message for a text, with the files that it mentions."""
        self._problem = problem
        self._queued: list[tuple[str, QueuedMessage]] = []
        """The typed texts, and the messages that were made of them."""
        self._next: list[str] = []
        """Texts for the next turns: nothing was running that could take them."""
        self._sending: list[str] = []
        self._work: asyncio.Task[None] | None = None

    def lines(self, width: int) -> Iterator[str]:
        waiting = [*self._texts(), *self._sending, *self._next]
        for number, text in enumerate(waiting, 1):
            hint = "  (↑ takes it back)" if number == len(waiting) else ""
            yield styled(fit(f"⏎ queued: {safe_line(text)}{hint}", width), DIM)

    def send(self, text: str) -> None:
        self._sending.append(text)
        self._after(self._send(text))

    def take_back(self, give: Callable[[str], None]) -> None:
        """Take back the newest text that was not delivered, and give it to the input line."""
        self._after(self._take_back(give))

    async def next_text(self) -> str:
        """Return a text that waits for the next turn, or ""."""
        await self._settled()
        return self._next.pop(0) if self._next else ""

    async def offered(self) -> str:
        """Take back all texts after an interrupt or an error, for the input line."""
        await self._settled()
        texts: list[str] = []
        session = self._session()
        for text, queued in self._queued:
            if session and await session.unsteer(queued):
                texts.append(text)
        texts += self._next
        self._queued, self._next = [], []
        return "\n".join(texts)

    async def _send(self, text: str) -> None:
        try:
            session = self._session()
            if session is None:
                raise ConversationError("there is no session yet")
            self._queued.append((text, await session.steer(await self._prompt(text))))
        except ConversationError:
            self._next.append(text)
        except OutriderError as error:
            self._problem(str(error))
            self._next.append(text)
        finally:
            self._sending.remove(text)

    async def _take_back(self, give: Callable[[str], None]) -> None:
        if self._next:
            give(self._next.pop())
            return
        session = self._session()
        while self._queued and session:
            text, queued = self._queued.pop()
            if await session.unsteer(queued):
                give(text)
                return

    def _texts(self) -> list[str]:
        session = self._session()
        waiting = {each.id for each in session.queued} if session else set()
        return [text for text, queued in self._queued if queued.id in waiting]

    def _after(self, work: Awaitable[None]) -> None:
        """Do this once what was asked before is done: keys act in the order in which they were pressed."""
        before = self._work

        async def in_order() -> None:
            if before:
                await asyncio.wait([before])
            await work

        self._work = asyncio.ensure_future(in_order())

    async def _settled(self) -> None:
        if self._work:
            await self._work


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
        self._turn.interrupt(False)

    def has_message(self) -> bool:
        """Return whether a message waits that begins a turn."""
        return bool(self._said)

    def next_message(self) -> str:
        """Take a message that begins a turn."""
        return self._said.pop(0)
