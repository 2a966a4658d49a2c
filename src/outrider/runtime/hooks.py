"""Hooks: async functions that a session calls at certain points. They may stop or change what happens there.

A session without hooks pays nothing for them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from outrider.conversation.messages import Message
from outrider.conversation.user_messages import is_from_user
from outrider.tools.tool import is_async

if TYPE_CHECKING:
    from pathlib import Path
else:
    from os import PathLike as Path  # pathlib is slow to import; help() evaluates annotations


HOOK_SAYS = "[A hook says:]\n"
"""The beginning of what a hook says to the model."""


def newest_request(messages: Iterable[Message]) -> str:
    """Return the newest words of the user among messages, of which the newest is first. Hooks and marks are no user."""
    said = (each.text for each in messages if is_from_user(each))
    return next((text for text in said if text.strip() and not text.startswith(HOOK_SAYS)), "")


class HookEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What every hook is told."""

    session: str
    """The id of the session."""
    cwd: Path
    """Its folder."""


class SessionStart(HookEvent, frozen=True):
    """The first run of a session begins. Context is added to its prompt."""

    source: Literal["new", "resumed"]


class SessionEnd(HookEvent, frozen=True):
    """The session is closed."""


class PromptSubmitted(HookEvent, frozen=True):
    """A prompt is about to be added. A block refuses it; context is added to it."""

    prompt: str
    """Its text."""


class BeforeTool(HookEvent, frozen=True):
    """A call is about to be approved and run. A block refuses it; `input` replaces its arguments."""

    call_id: str
    tool: str
    input: dict[str, Any]


class AfterTool(HookEvent, frozen=True):
    """A call has its result. Context, and the reason of a block, are added to the result."""

    call_id: str
    tool: str
    input: dict[str, Any]
    result: str
    """The text of the result."""
    is_error: bool


class BeforeCompaction(HookEvent, frozen=True):
    """The conversation is about to be summarised. A block prevents it."""

    reason: str
    """`manual`, `threshold` or `too_long`."""
    focus: str
    """What the summary must keep."""


class Stop(HookEvent, frozen=True):
    """The run has its answer. The reason of a block is the next message, and the run goes on."""

    text: str
    """The answer."""
    is_continued: bool
    """Whether a hook has kept this run going before."""


class SubagentStop(Stop, frozen=True):
    """A sub-agent has its answer."""

    agent: str
    """Its name."""


class Notification(HookEvent, frozen=True):
    """A question waits for the person."""

    message: str


class HookResult(msgspec.Struct, frozen=True):
    """What a hook wants. A hook that wants nothing returns None.

    >>> HookResult(block="not on a Friday").block
    'not on a Friday'
    """

    block: str = ""
    """Why this must not go on; empty to let it."""
    context: str = ""
    """Text for the model."""
    input: dict[str, Any] | None = None
    """Other arguments for the call, of a hook before a tool."""
    note: str = ""
    """A line for the person."""


Hook: TypeAlias = Callable[[Any], Awaitable[HookResult | None]]


class Hooks(msgspec.Struct, frozen=True, kw_only=True):
    """The hooks of an agent, by the point at which they are called. A single function may be given for a list.

    >>> async def check(event: BeforeTool) -> HookResult | None:
    ...     return HookResult(block="no") if "rm " in str(event.input) else None
    >>> len(Hooks(before_tool=check).before_tool)
    1
    """

    session_start: Sequence[Hook] = ()
    session_end: Sequence[Hook] = ()
    prompt_submitted: Sequence[Hook] = ()
    before_tool: Sequence[Hook] = ()
    after_tool: Sequence[Hook] = ()
    before_compaction: Sequence[Hook] = ()
    stop: Sequence[Hook] = ()
    subagent_stop: Sequence[Hook] = ()
    notification: Sequence[Hook] = ()

    if TYPE_CHECKING:  # a single function is accepted, and is a list afterwards

        def __init__(
            self,
            *,
            session_start: Hook | Iterable[Hook] = (),
            session_end: Hook | Iterable[Hook] = (),
            prompt_submitted: Hook | Iterable[Hook] = (),
            before_tool: Hook | Iterable[Hook] = (),
            after_tool: Hook | Iterable[Hook] = (),
            before_compaction: Hook | Iterable[Hook] = (),
            stop: Hook | Iterable[Hook] = (),
            subagent_stop: Hook | Iterable[Hook] = (),
            notification: Hook | Iterable[Hook] = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            given = getattr(self, name)
            hooks = (given,) if callable(given) else tuple(given)
            for hook in hooks:
                if not is_async(hook):
                    shown = getattr(hook, "__name__", type(hook).__name__)
                    raise TypeError(f"the hook {shown} of {name} must be an async function of one event")
            msgspec.structs.force_setattr(self, name, hooks)


NO_HOOKS = Hooks()


def _wanted(returned: object) -> HookResult:
    """Return what a hook wants. Raises TypeError for anything but a HookResult or None: False may mean either."""
    if returned is None:
        return HookResult()
    if not isinstance(returned, HookResult):
        raise TypeError(f"it returned {returned!r:.80}, and not None or a HookResult, as in HookResult(block='why')")
    return returned


async def run_hooks(hooks: Iterable[Hook], event: HookEvent, report: Callable[[str], None]) -> HookResult:
    """Call hooks in order, until one blocks. Return all that they want.

    A hook that fails before a tool or a prompt blocks it: its mistake must not let through what it should stop. At
    other points the failure is reported, and the next hook is called.
    """
    context: list[str] = []
    changed: dict[str, Any] | None = None
    for hook in hooks:
        try:
            wanted = _wanted(await hook(event))
        except Exception as error:  # noqa: BLE001 - whatever a hook does, the session goes on
            problem = f"a hook failed: {type(error).__name__}: {error}"
            if isinstance(event, BeforeTool | PromptSubmitted):
                return HookResult(problem, "\n\n".join(context), changed)
            report(problem)
            continue
        if wanted.note:
            report(wanted.note)
        if wanted.context.strip():
            context.append(wanted.context)
        if wanted.input is not None and isinstance(event, BeforeTool):
            changed = wanted.input
            event = msgspec.structs.replace(event, input=changed)
        if wanted.block:
            return HookResult(wanted.block, "\n\n".join(context), changed)
    return HookResult("", "\n\n".join(context), changed)
