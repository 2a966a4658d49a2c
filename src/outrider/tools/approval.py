"""Approval: decides whether a call may run.

An approver is any function that takes a call and its tool. The call runs only if it returns `Allow()` or `True`.
Any other value denies the call, and so does an exception: a mistake in an approver must not run a tool.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import msgspec

from outrider.conversation.messages import ToolUseBlock
from outrider.errors import ValidationError
from outrider.tools.threads import Threads
from outrider.tools.tool import Tool, is_async

DENIED = "the call was denied"


class Allow(msgspec.Struct, frozen=True):
    """Let the call run.

    >>> Allow(input={"path": "notes.txt"}).input
    {'path': 'notes.txt'}
    """

    by: str = ""
    """Who or what decided, for the log: a rule, a mode, a person."""
    input: Mapping[str, Any] | None = None
    """Other arguments for the call, all of them; None leaves those of the model. The model is told."""


class Deny(msgspec.Struct, frozen=True):
    """Do not run the call.

    >>> Deny("not on a Friday").reason
    'not on a Friday'
    """

    reason: str = ""
    """The reason, which the model reads."""
    by: str = ""
    """Who or what decided, for the log."""
    ends_run: bool = False
    """Whether the run ends: no other call of the reply starts, and the next prompt says what to do instead."""


class Defer(Exception):  # noqa: N818 - it is no error
    """Raised to let something come later, from outside of the process: a decision, or the result of a call.

    An approver raises it: the call waits until a person decides with `log.answer(id, Allow())`. A tool raises it: what
    it was called for comes later, and `log.resolve(context.key, result)` gives its result. If nothing else can go on,
    the run ends with the status `waiting`. After `seconds` without an answer the call is denied, or fails.

    >>> Defer("Refund 40 € for order 17?", seconds=24 * 3600).question
    'Refund 40 € for order 17?'
    """

    def __init__(self, question: Any = "", *, seconds: float | None = None) -> None:
        super().__init__(question)
        self.question = question
        """What is asked or awaited, in one line. Without it, the call is named."""
        self.seconds = seconds


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


@runtime_checkable
class AnswerTaker(Protocol):
    """An approver that decides itself what an answer means that came later. `PermissionApprover` is one."""

    def answered(self, question: dict[str, Any], option: str, words: str) -> Approver:
        """Return an approver for one call, which need not ask this question: it has this answer."""
        ...


class Verdict(NamedTuple):
    """What an approver decided."""

    denial: str
    """The reason for the model, or "" if the call may run."""
    by: str = "the approver"
    """Who or what decided."""
    input: dict[str, Any] | None = None
    """Other arguments, valid for the tool, if the approver changed them."""
    ends_run: bool = False
    """Whether a denial ends the run."""


async def verdict_of(approver: Approver, call: ToolUseBlock, tool: Tool, threads: Threads) -> Verdict:
    """Return what an approver decides about a call. Its exceptions propagate, such as Defer."""
    decision: object = approver(call, tool) if is_async(approver) else await threads.run(approver, call, tool)
    if inspect.isawaitable(decision):
        decision = await decision
    by = str(decision.by if isinstance(decision, Allow | Deny) else "") or "the approver"
    if not isinstance(decision, Allow) or decision.input is None:
        return Verdict(denial_in(decision), by, ends_run=isinstance(decision, Deny) and decision.ends_run is True)
    try:
        return Verdict("", by, _checked(decision.input, tool))
    except ValidationError as error:
        return Verdict(f"the approver's own arguments are not valid: {'; '.join(error.violations)}", by)


def _checked(arguments: object, tool: Tool) -> dict[str, Any]:
    """Return the arguments as plain data that satisfies the tool's schema. Raises ValidationError."""
    if not isinstance(arguments, Mapping):
        raise ValidationError([f"they must be a mapping, not {type(arguments).__name__}"])
    try:
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(dict(arguments)))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValidationError([f"they are not JSON: {error}"]) from None
    tool.check(plain)
    return plain


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


def check_approver(approve: object) -> None:
    """Raise TypeError for what could not be called in the middle of a run."""
    if approve is not None and not callable(approve):
        raise TypeError(
            f"approve must be a function of a call and its tool, not {approve!r:.60}; leave it out for none"
        )
