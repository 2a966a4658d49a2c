"""Approval: decides whether a call may run.

An approver is any function that takes a call and its tool. The call runs only if it returns `Allow()` or `True`.
Any other value denies the call, and so does an exception: a mistake in an approver must not run a tool.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias, runtime_checkable

import msgspec

from outrider.conversation.messages import ToolUseBlock
from outrider.tools.threads import Threads
from outrider.tools.tool import Tool, is_async

DENIED = "the call was denied"


class Allow(msgspec.Struct, frozen=True):
    """Let the call run."""


class Deny(msgspec.Struct, frozen=True):
    """Do not run the call.

    >>> Deny("not on a Friday").reason
    'not on a Friday'
    """

    reason: str = ""
    """The reason, which the model reads."""


Decision: TypeAlias = Allow | Deny | bool
Approver: TypeAlias = Callable[[ToolUseBlock, Tool], Decision | Awaitable[Decision]]
"""Decide whether a call may run.

Called once for each call, in call order, just before the call starts. For a call that must run alone, that is after the
calls before it have finished. An async function may wait for a person; a sync function runs in a thread.
"""


@runtime_checkable
class FileApprover(Protocol):
    """An approver that also decides about the files that tools attach by path. `PermissionApprover` is one."""

    async def attach(self, use: ToolUseBlock, given: str, real: str) -> Decision:
        """Decide whether a file may be attached to the result of a call.

        `given` is the absolute path that the tool named. `real` is the resolved path of the opened file.
        """
        ...


async def denial_of(approver: Approver, call: ToolUseBlock, tool: Tool, threads: Threads) -> str:
    """Return the denial reason for the model, or "" if the call may run. Exceptions of the approver propagate."""
    decision: object = approver(call, tool) if is_async(approver) else await threads.run(approver, call, tool)
    if inspect.isawaitable(decision):
        decision = await decision
    return denial_in(decision)


def denial_in(decision: object) -> str:
    """Return the denial reason of a decision, or "" if it allows the call."""
    if decision is True or isinstance(decision, Allow):
        return ""
    if isinstance(decision, Deny):
        return str(decision.reason) or DENIED
    if decision is False:
        return DENIED
    return f"the approver returned {type(decision).__name__}; only Allow() or True lets a call run"


def for_subagent(approver: Approver | None, label: str) -> Approver | None:
    """Return the approver for a sub-agent. One with `on_behalf_of`, as `PermissionApprover`, receives its name."""
    on_behalf_of: Callable[[str], Approver] | None = getattr(approver, "on_behalf_of", None)
    return on_behalf_of(label) if on_behalf_of else approver
