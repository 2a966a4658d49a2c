"""A command of the chat, what it works with, and what may follow it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, TypeAlias

from outrider.cli.chat.current_session import CurrentSession
from outrider.cli.chat.session_view import SessionView


class Send(NamedTuple):
    """Send a message to the agent next."""

    text: str
    """The message; empty continues an interrupted turn."""


class Write(NamedTuple):
    """Put a text into the next line."""

    text: str


class Work(NamedTuple):
    """Do something next that takes a while, and that Esc cancels."""

    work: Coroutine[Any, Any, None]


class Dialogue(NamedTuple):
    """Ask the user something next, with the terminal for itself. What it returns follows."""

    work: Coroutine[Any, Any, Next]


class Exit(NamedTuple):
    """Exit the chat."""


Next: TypeAlias = Send | Write | Work | Dialogue | Exit | None
"""What follows a command; after None the chat reads the next line."""


class CommandContext(NamedTuple):
    """What commands work with: the session, and the view that they write to."""

    current: CurrentSession
    view: SessionView


class ChatCommand(NamedTuple):
    """A command, which a line that begins with / and its name runs."""

    name: str
    description: str
    run: Callable[[CommandContext, str], Next]
    """Called with the rest of the line. An OutriderError that it raises is shown."""
    aliases: tuple[str, ...] = ()
