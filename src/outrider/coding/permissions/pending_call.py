"""A call that waits for a decision: what is known of it, what a question shows, how it was allowed, who judges it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from outrider.conversation.messages import ToolUseBlock

if TYPE_CHECKING:
    from outrider.coding.permissions.decision import Decision
    from outrider.coding.permissions.policy import Policy


class PendingCall(msgspec.Struct, frozen=True):
    """A call to decide about."""

    use: ToolUseBlock
    effect: str
    cwd: Callable[[], Path]
    """Returns the folder of the caller's shell."""
    asker: str = ""
    """The caller, if it is a sub-agent or a tool that attaches a file."""
    built_in: bool = True
    folder: Path | None = None
    """The worktree in which the caller works; None for the project's folder."""
    workspace: str = ""
    """The workspace of a sub-agent elsewhere; empty for that of the session."""


class Preview(msgspec.Struct, frozen=True):
    """What a question shows of a call beside its arguments."""

    folder: str = ""
    """Where a command runs, if that is not the project folder."""
    changes: str = ""
    """What an edit changes: how many lines in how many places."""
    diff: str = ""


class Grant(NamedTuple):
    """How a call was allowed, for tools that run in another process."""

    paths: tuple[str, ...] = ()
    """The resolved paths that the user agreed to."""
    unasked: bool = False
    """Whether a command is allowed by the names of its programs alone."""


class Judge(Protocol):
    """Decides about calls where their files are, if that is not here."""

    def decides(self, tool: str) -> bool:
        """Return whether calls of a built-in tool are decided there."""

    async def decide(self, policy: Policy, call: PendingCall) -> Decision:
        """Decide about a call. It is denied if that is impossible."""

    async def preview(self, call: PendingCall) -> Preview:
        """Return what a question shows of the call that was decided on last."""
