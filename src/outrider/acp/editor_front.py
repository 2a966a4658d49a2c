"""What other processes can do with the session of an editor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outrider.acp.schema.content import TextContent
from outrider.coding.permissions.question import Mode
from outrider.conversation.messages import Message
from outrider.errors import OutriderError

if TYPE_CHECKING:
    from outrider.acp.editor_session import EditorSession


class EditorFront:
    """Answers, messages and stops from elsewhere, as if the user had given them in the editor. Implements `Front`."""

    place = "in the editor"

    def __init__(self, session: EditorSession) -> None:
        self._session = session

    def answered(self, text: str) -> None:
        """Show that a question was answered elsewhere."""
        self._session.sender.send_notice(text, "info")

    def use_mode(self, mode: Mode) -> None:
        """Change the permission mode."""
        self._session.set_mode(mode)

    async def say(self, text: str) -> None:
        """Run a turn, or queue the text for the turn that goes on. The editor sees it as a message of the user."""
        self._session.sender.send_user_message(Message.user(text))
        try:
            await self._session.turns.prompt([TextContent(text)])
        except OutriderError as error:
            self._session.sender.send_notice(str(error))

    def stop(self) -> None:
        """Cancel the turn that goes on."""
        self._session.turns.cancel()
