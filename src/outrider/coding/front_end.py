"""What a workbench and other processes use of a front end: the chat, `-p`, an editor or the web page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

from outrider.coding.permissions.question import Ask, Mode
from outrider.log.session_filter import Origin

if TYPE_CHECKING:
    from outrider.log.questions import Answer, ChoiceQuestion
    from outrider.mcp.elicitation import OnElicit


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


Choose: TypeAlias = "Callable[[str, ChoiceQuestion], Awaitable[Answer]]"
"""Asks what the model wants to know. Takes the id of the call, and the question."""


class FrontEnd(msgspec.Struct, frozen=True):
    """How a session reaches its user. A front end without a dialogue leaves `ask`, `elicit` and `choose` out."""

    ask: Ask | None = None
    """Asks about a call that needs approval. Without it, such calls are denied."""
    elicit: OnElicit | None = None
    """Asks for an MCP server."""
    on_server_notice: Callable[[str], None] | None = None
    """Is told at once, in another thread, what happens to servers. Without it, runs tell it."""
    remote: Front | None = None
    """Lets other processes of the user answer questions, talk to the session, stop it and watch it."""
    choose: Choose | None = None
    """Asks what the model wants to know. Without it, the model hears that nobody can answer."""
    later: bool = False
    """Whether questions wait in the log for an answer, if there is no dialogue: the run ends, and goes on later."""
    wake: Callable[[], None] | None = None
    """Called when a sub-agent in the background has ended: a run tells the model. Without it, runs wait for them."""
    origin: Origin = "python"
    """What its sessions are, for lists."""


NO_FRONT_END = FrontEnd()
