"""A command of the chat, what it works with, and what may follow it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from outrider.cli.chat.current_session import CurrentSession
from outrider.cli.chat.session_view import SessionView

if TYPE_CHECKING:
    from outrider.cli.chat.picker import PickerChoice
    from outrider.coding.rewind_points import Rewind


class Send(NamedTuple):
    """Send a message to the agent next."""

    text: str
    """The message; empty continues an interrupted turn."""


class Compact(NamedTuple):
    """Summarise the conversation next."""

    focus: str
    """What the summary must keep."""


class Work(NamedTuple):
    """Do something next that takes a while, and that Esc cancels."""

    work: Coroutine[Any, Any, None]


class Dialogue(NamedTuple):
    """Ask the user something next, with the terminal for itself. What it returns follows."""

    work: Coroutine[Any, Any, Next]


class Pick(NamedTuple):
    """Let the user choose next."""

    title: str
    choices: Sequence[PickerChoice]
    take: Callable[[str], None]
    """Called with the value of the choice."""
    ask: Callable[[], Awaitable[str | None]] | None = None
    """A list of its own, instead of the title and the choices."""


class ShowInPager(NamedTuple):
    """Show a text in the pager next."""

    text: str


class Exit(NamedTuple):
    """Exit the chat."""


Next: TypeAlias = "Send | Compact | Rewind | Work | Dialogue | Pick | ShowInPager | Exit | None"
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
