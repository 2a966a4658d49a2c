"""What other processes can do with the session of `outrider -p`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from outrider.coding.front_end import FrontEnd
from outrider.coding.permissions.question import Answer, Mode, Question
from outrider.coding.toolbox.titles import title
from outrider.errors import ConversationError, OutriderError
from outrider.visible_text import revealed_line, safe_line

if TYPE_CHECKING:
    from outrider.coding.workbench import Workbench
    from outrider.mcp.elicitation import Elicitation, ElicitationAnswer
    from outrider.runtime.session import Session


class PromptFront:
    """Answers, messages and stops from elsewhere. There is no dialogue here. Implements `Front`."""

    place = "in the terminal"

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._bench: Workbench | None = None
        self._session: Session | None = None

    def use(self, bench: Workbench, session: Session) -> None:
        """Serve this session."""
        self._bench, self._session = bench, session

    def front_end(self, *, with_dialogue: bool) -> FrontEnd:
        """Return it for a workbench. With a dialogue, questions wait for an answer elsewhere."""
        return FrontEnd(self.ask, self.elicit, remote=self) if with_dialogue else FrontEnd(remote=self)

    async def ask(self, question: Question) -> Answer:
        """Wait until the question is answered elsewhere."""
        asked = " · ".join((title(question.tool, question.input), *question.facts))
        self._note(f"A question waits for an answer elsewhere: {revealed_line(asked)}")
        never: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        return await never

    async def elicit(self, question: Elicitation) -> ElicitationAnswer:
        """Wait until the question of a server is answered elsewhere."""
        self._note(f"A question of the MCP server {safe_line(question.server)} waits for an answer elsewhere.")
        never: asyncio.Future[ElicitationAnswer] = asyncio.get_running_loop().create_future()
        return await never

    def answered(self, text: str) -> None:
        """Show how a question was answered."""
        self._note(safe_line(text))

    def use_mode(self, mode: Mode) -> None:
        """Change the permission mode."""
        if self._bench:
            self._bench.use_mode(mode, self._session)

    async def say(self, text: str) -> None:
        """Queue a message for the run that goes on. Raises ConversationError if it has ended."""
        try:
            if self._session:
                await self._session.steer(text)
        except ConversationError:
            raise
        except OutriderError as error:
            self._note(f"A message from elsewhere was not delivered: {error}")

    def stop(self) -> None:
        """Cancel the run."""
        if self._session:
            self._session.cancel()
