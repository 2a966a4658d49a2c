"""Whether a call may run: the seam between the loop and whoever decides."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias, runtime_checkable

from outrider.conversation.messages import ToolUseBlock
from outrider.tools.tool import Tool

Approver: TypeAlias = Callable[[ToolUseBlock, Tool], Awaitable[str]]
"""Says of a call why it may not run, in words for the model; empty if it may.

Asked once for each call, in call order, just before that call begins; a call that must be alone is asked about when
those before it are done. It may wait for a person. What it raises counts as a refusal.
"""


@runtime_checkable
class FilePermit(Protocol):
    """A permit that also judges the files that tools attach by their paths. `Permissions` is one."""

    async def attach(self, use: ToolUseBlock, given: str, real: str) -> str:
        """Say why a file may not be attached to the result of a call, in words for the model; empty if it may.

        `given` is the absolute path that the tool named. `real` is where the file is that is open and would be read.
        """
        ...


def for_subagent(permit: Approver | None, asker: str) -> Approver | None:
    """The same permit for a sub-agent: one that can say who asks, as `Permissions` can, does so."""
    on_behalf_of: Callable[[str], Approver] | None = getattr(permit, "on_behalf_of", None)
    return on_behalf_of(asker) if on_behalf_of else permit
