"""The questions of a session to its user: in the front end, and in other processes at the same time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from outrider.coding.front_end import FrontEnd
from outrider.coding.permissions.question import Answer, Mode, Question
from outrider.coding.remote.control import RemoteControl

if TYPE_CHECKING:
    from outrider.mcp.elicitation import Elicitation, ElicitationAnswer


class Dialogue:
    """Asks the user. The first answer counts, wherever it is given."""

    def __init__(
        self,
        front_end: FrontEnd,
        remote: RemoteControl | None,
        *,
        mode: Callable[[], Mode],
        notify: Callable[[Question], None],
    ) -> None:
        """`notify` gets each question about a call before the user sees it."""
        self._front_end = front_end
        self._remote = remote
        self._mode = mode
        self._notify = notify

    async def ask(self, question: Question) -> Answer:
        """Ask about a call."""
        assert self._front_end.ask
        self._notify(question)
        if self._remote is None:
            return await self._front_end.ask(question)
        return await self._remote.questions.ask(question, self._front_end.ask, self._mode())

    async def elicit(self, question: Elicitation) -> ElicitationAnswer:
        """Ask for an MCP server."""
        assert self._front_end.elicit
        if self._remote is None:
            return await self._front_end.elicit(question)
        return await self._remote.questions.elicit(question, self._front_end.elicit)
