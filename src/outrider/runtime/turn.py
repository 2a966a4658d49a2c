"""One turn of a conversation, without a session that goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from outrider.conversation.items import ByItem
from outrider.conversation.messages import Message, ToolResultBlock, ToolUseBlock, plain_calls
from outrider.conversation.prompt import Prompt
from outrider.conversation.store import AttachmentStore, default_store
from outrider.conversation.usage import Usage
from outrider.providers.base import StopReason
from outrider.runtime.agent_spec import AgentSpec
from outrider.runtime.deps import check_tool_deps
from outrider.runtime.event_loop import check_may_block, run_sync
from outrider.runtime.limits import Limits
from outrider.runtime.run_scope import ModelOptions
from outrider.runtime.session import Session
from outrider.tools.approval import Approver
from outrider.tools.tool import check_tool_list, make_tools

if TYPE_CHECKING:
    from pathlib import Path


class Turn(ByItem, msgspec.Struct, frozen=True):
    """One turn of a conversation, as `think` returns it.

    Attributes are typed: `turn.conversation` has messages. Items are plain data: `turn["conversation"]` is a list of
    dicts, which json.dumps() takes and think() and run() continue. `dict(turn)` has them all.
    """

    content: str
    """The text of the reply."""
    conversation: list[Message]
    """All messages, including this turn's. Pass them to think() or run() to continue."""
    tool_calls: tuple[ToolUseBlock, ...] = ()
    """The calls that the model requests. Answer them with `tool_results=turn.run_calls(tools)`, or let run() do it."""
    usage: Usage = Usage()
    stop_reason: StopReason = StopReason.END
    """Why the reply ended: `max_tokens` if it was truncated, `refusal`, `content_filter` and so on."""

    def _repr_html_(self) -> str:
        """Return the conversation as a notebook shows it."""
        from outrider.conversation.html import conversation_html  # only notebooks need it

        return conversation_html(self.conversation, default_store())

    @property
    def text(self) -> str:
        """The text of the reply, as in `RunResult.text`."""
        return self.content

    @property
    def has_tool_calls(self) -> bool:
        """Whether the model requests calls."""
        return bool(self.tool_calls)

    def run_calls(
        self,
        tools: Iterable[Callable[..., Any]],
        *,
        deps: Any = None,
        approve: Approver | None = None,
        limits: Limits | None = None,
        cwd: str | Path | None = None,
        store: AttachmentStore | None = None,
    ) -> list[ToolResultBlock]:
        """Run the calls of this turn with these tools. Return the results, for `think(tool_results=…)`.

        Arguments are validated and converted, and calls run side by side, as in `run`. A wrong argument, an unknown
        tool, a failure and a time-out are results, which the model reads.

        >>> def double(number: int) -> int:
        ...     "Double a number."
        ...     return 2 * number
        >>> from outrider import think
        >>> turn = think("What is 2+2?", tools=[double], model="demo")
        >>> turn.run_calls([double])
        []
        """
        check_may_block("turn.run_calls", "await agent.act(turn)")
        made, kind = make_tools(check_tool_list(tools)), None if deps is None else type(deps)
        check_tool_deps(kind, made)
        # The model is never asked.
        agent: AgentSpec[Any] = AgentSpec(model="demo", tools=made, limits=limits or Limits(), deps_type=kind)
        session = Session(agent, self.conversation, store=store, cwd=cwd, approve=approve, deps=deps)
        return run_sync(act_in(session))

    def keys(self) -> tuple[str, ...]:
        """Return the keys of `dict(turn)`."""
        return *super().keys(), "has_tool_calls"

    def __getitem__(self, name: str) -> Any:
        return plain_calls(self.tool_calls) if name == "tool_calls" else super().__getitem__(name)


async def act_in(session: Session[Any]) -> list[ToolResultBlock]:
    """Run the calls of a session's newest reply, and return their results."""
    return list((await session.act()).message.tool_results)


async def take_turn(
    session: Session[Any],
    prompt: Prompt,
    tool_results: Iterable[ToolResultBlock | Mapping[str, Any]] | None,
    **settings: Unpack[ModelOptions],
) -> Turn:
    """Ask the model of a session once, and return the turn."""
    reply = await session.think(prompt, tool_results=tool_results, **settings)
    return Turn(reply.text, session.messages, reply.message.tool_calls, reply.usage, reply.stop_reason)
