"""A `ToolContext` without a session, for unit tests of tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar, overload

from outrider.conversation.store import AttachmentStore, MemoryStore
from outrider.tools.context import CallRef, ToolContext
from outrider.tools.threads import Threads

T = TypeVar("T")


@overload
def tool_context(
    *,
    cwd: str | Path = ".",
    call_id: str = "call_1",
    on_progress: Callable[[Any], None] | None = None,
    store: AttachmentStore | None = None,
) -> ToolContext[None]: ...
@overload
def tool_context(
    deps: T,
    *,
    cwd: str | Path = ".",
    call_id: str = "call_1",
    on_progress: Callable[[Any], None] | None = None,
    store: AttachmentStore | None = None,
) -> ToolContext[T]: ...
def tool_context(
    deps: Any = None,
    *,
    cwd: str | Path = ".",
    call_id: str = "call_1",
    on_progress: Callable[[Any], None] | None = None,
    store: AttachmentStore | None = None,
) -> ToolContext[Any]:
    """Return a context with which a test calls a tool: `look("left", tool_context(deps=Desk()))`.

    `context.attachments` has the files that the tool attached. `on_progress` receives what it reports. `store` has the
    files that `context.stored` finds.

    >>> tool_context(deps=[1, 2]).deps
    [1, 2]
    """
    return ToolContext(
        CallRef(call_id, f"test/{call_id}", "test"),
        Path(cwd).absolute(),
        Threads(),
        on_progress or _unheard,
        store=MemoryStore() if store is None else store,
        open_child=_no_subagents,
        deps=deps,
    )


def _unheard(content: Any) -> None:
    """Take progress that the test does not look at."""


async def _no_subagents(*_: Any) -> NoReturn:
    raise RuntimeError("tool_context() starts no sub-agents; run the tool in a session with a ScriptedModel")
