"""What a workbench uses of its front end: the chat, `-p`, an editor or the web page."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from outrider.coding.permissions.question import Ask
from outrider.coding.remote.front import Front

if TYPE_CHECKING:
    from outrider.mcp.elicitation import OnElicit


class FrontEnd(msgspec.Struct, frozen=True):
    """How a session reaches its user. A front end without a dialogue leaves `ask` and `elicit` out."""

    ask: Ask | None = None
    """Asks about a call that needs approval. Without it, such calls are denied."""
    elicit: OnElicit | None = None
    """Asks for an MCP server."""
    on_server_notice: Callable[[str], None] | None = None
    """Is told at once, in another thread, what happens to servers. Without it, runs tell it."""
    remote: Front | None = None
    """Lets other processes of the user answer questions, talk to the session, stop it and watch it."""


NO_FRONT_END = FrontEnd()
