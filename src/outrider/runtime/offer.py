"""What requests offer while a mode of the session holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from outrider.tools.server_tool import ServerTool
from outrider.tools.tool import Tool


class Offer(msgspec.Struct, frozen=True):
    """The tools that requests offer for now, and what they remind the model of.

    A tool that is not offered can still be called: the approver decides about it.
    """

    tools: tuple[Tool[..., Any], ...] = ()
    """Tools of the session beside those of its agent and its servers."""
    form: Callable[[Tool[..., Any]], Tool[..., Any] | None] = lambda tool: tool
    """Returns the form in which a tool is offered, or None if it is not."""
    server_tools: tuple[ServerTool, ...] = ()
    """Tools that the model's API runs, beside those of the agent."""
    reminder: str = ""
    """What follows the last message of each request."""
