"""What a front end does for a session when another process asks for it."""

from __future__ import annotations

from typing import Protocol

from outrider.coding.permissions.question import Mode


class Front(Protocol):
    """The front end of a session. All methods are called on its event loop, and return at once except for `say`."""

    @property
    def place(self) -> str:
        """Where its user answers, as in `in the terminal`."""
        ...

    def answered(self, text: str) -> None:
        """Show that a question was answered elsewhere, and how; or what an answer has stored."""

    def use_mode(self, mode: Mode) -> None:
        """Change the permission mode, as the user could."""

    async def say(self, text: str) -> None:
        """Send a message of the user: the run that goes on takes it, or a new one begins.

        Return when the front end is done with it: the run has ended, or it was a command, or it was refused. Raises
        ConversationError if the session will not get it; then its sender says it elsewhere.
        """

    def stop(self) -> None:
        """Cancel the run that goes on, if any."""
