"""The questions of a chat, one at a time. Between turns a question waits for the next Enter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.cli.chat.keyboard import Keyboard
from outrider.cli.chat.line_editor import LineEditor
from outrider.cli.chat.permission_prompt import PermissionPrompt
from outrider.cli.chat.question_prompts import ChoicePrompt, ElicitationPrompt
from outrider.cli.chat.session_view import SessionView
from outrider.cli.chat.turn import TurnRunner
from outrider.coding.permissions.question import Answer, Mode, Question
from outrider.log.questions import Answer as GivenAnswer
from outrider.log.questions import ChoiceQuestion
from outrider.text.visible import safe_line

if TYPE_CHECKING:
    from outrider.mcp.elicitation import Elicitation, ElicitationAnswer


class Dialogues:
    """Asks the user for the agent, for its sub-agents and for MCP servers."""

    def __init__(
        self,
        view: SessionView,
        keyboard: Keyboard,
        turn: TurnRunner,
        editor: LineEditor,
        folder: Path,
        mode: Callable[[], Mode],
        notify: Callable[[str], None],
    ) -> None:
        self._view = view
        self._turn = turn
        self._editor = editor
        self._notify = notify
        self.permission = PermissionPrompt(view, keyboard, folder, turn.interrupt, mode)
        self._elicitation = ElicitationPrompt(view, keyboard, turn.interrupt)
        self._choice = ChoicePrompt(view, keyboard, turn.interrupt)
        self.one_question = asyncio.Lock()
        """Held while a question is on the screen."""
        self._waiting: list[asyncio.Event] = []
        """Questions that wait until the user looks."""
        self._open = 0
        self._answered = asyncio.Event()

    async def ask(self, question: Question) -> Answer:
        """Ask whether a call may run."""
        async with self._asking(question.asker):
            return await self.permission(question)

    async def choose(self, call_id: str, question: ChoiceQuestion) -> GivenAnswer:
        """Ask what the model wants to know."""
        async with self._asking("A sub-agent"):
            return await self._choice(call_id, question)

    async def elicit(self, question: Elicitation) -> ElicitationAnswer:
        """Ask what an MCP server wants to know."""
        async with self._asking(f"The MCP server {question.server}"):
            return await self._elicitation(question)

    @asynccontextmanager
    async def _asking(self, who: str) -> AsyncIterator[None]:
        """Ask one question at a time. Between turns the user is typing a line, and is asked after it."""
        self._notify("A question waits for your answer.")
        if self._turn.is_running:
            async with self.one_question:
                yield
            return
        self._editor.above(lambda: self._view.note(f"{safe_line(who)} asks something. Press Enter to see it."))
        async with self._until_seen(), self.one_question:
            yield

    @asynccontextmanager
    async def _until_seen(self) -> AsyncIterator[None]:
        """Wait until the user looks. The question is asked and answered inside."""
        looked = asyncio.Event()
        self._waiting.append(looked)
        try:
            await looked.wait()
            yield
        finally:
            if looked in self._waiting:  # the server has given up
                self._waiting.remove(looked)
            else:
                self._open -= 1
                if self._open <= 0:
                    self._answered.set()

    @property
    def has_waiting(self) -> bool:
        """Whether questions wait until the user looks."""
        return bool(self._waiting)

    async def ask_all(self) -> None:
        """Let the waiting questions be asked, and wait for their answers."""
        waiting, self._waiting = self._waiting, []
        self._open = len(waiting)
        self._answered.clear()
        for looked in waiting:
            looked.set()
        if waiting:
            await self._answered.wait()
