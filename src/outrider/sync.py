"""think(), run() and ask() for scripts and notebooks: plain calls that hold, continue and store a conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec

from outrider.conversation.codec import MessageLike, from_json, to_json
from outrider.conversation.items import ByItem
from outrider.conversation.messages import Message, ToolResultBlock, ToolUseBlock, Usage
from outrider.conversation.prompt import Prompt
from outrider.conversation.store import AttachmentStore, FolderStore
from outrider.environment import data_folder, default_model
from outrider.providers.base import Provider, StopReason
from outrider.runtime.agent import Agent
from outrider.runtime.event_loop import run_sync
from outrider.runtime.limits import Limits
from outrider.runtime.run import RunResult
from outrider.runtime.session import Session
from outrider.tools.tool import listed

if TYPE_CHECKING:
    from outrider.log.log import Log

T = TypeVar("T")
Tools = Iterable[Callable[..., Any]]
ToolResults = Iterable[ToolResultBlock | Mapping[str, Any]]


class Turn(ByItem, msgspec.Struct, frozen=True):
    """What think() returns of a conversation. Also readable as `turn["conversation"]`, and as `dict(turn)`."""

    content: str
    """The words of the reply."""
    conversation: list[Message]
    """All messages, this turn's included: pass it on to continue."""
    tool_calls: tuple[ToolUseBlock, ...] = ()
    """The calls that the model asks for; answer them with tool_results=, or let run() do it."""
    usage: Usage = Usage()
    stop_reason: StopReason = StopReason.END
    """Why the reply ended: `max_tokens` if it was cut off, `refusal`, `content_filter` and so on."""

    @property
    def text(self) -> str:
        """The text of the reply, as in `RunResult.text`."""
        return self.content

    @property
    def has_tool_calls(self) -> bool:
        """Whether the model asks for calls."""
        return bool(self.tool_calls)

    def keys(self) -> tuple[str, ...]:
        """The names that `dict(turn)` takes."""
        return *super().keys(), "has_tool_calls"


@overload
def think(
    prompt: Prompt,
    *,
    model: str | Provider | None = None,
    system: str = "",
    conversation: None = None,
    tools: None = None,
    tool_results: None = None,
    store: AttachmentStore | None = None,
) -> str: ...
@overload
def think(
    prompt: Prompt,
    *,
    model: str | Provider | None = None,
    system: str = "",
    conversation: Iterable[MessageLike],
    tools: Tools | None = None,
    tool_results: ToolResults | None = None,
    store: AttachmentStore | None = None,
) -> Turn: ...
@overload
def think(
    prompt: Prompt,
    *,
    model: str | Provider | None = None,
    system: str = "",
    conversation: None = None,
    tools: Tools,
    tool_results: None = None,
    store: AttachmentStore | None = None,
) -> Turn: ...
def think(
    prompt: Prompt,
    *,
    model: str | Provider | None = None,
    system: str = "",
    conversation: Iterable[MessageLike] | None = None,
    tools: Tools | None = None,
    tool_results: ToolResults | None = None,
    store: AttachmentStore | None = None,
) -> str | Turn:
    """Ask a model once. Alone it returns a string; with a conversation or tools, a turn that can be continued.

    The conversation that is given is not changed; tools without one begin one. Tools are offered to the model, but not
    run: `run` does that, or you do, and hand back `tool_results=[{"tool_use_id": …, "content": …}]`.

    >>> think("What's 2+2?", model="demo")
    '4'
    >>> turn = think("What's 2+2?", model="demo", conversation=[])
    >>> turn["content"], len(turn["conversation"]), turn["has_tool_calls"]
    ('4', 2, False)
    """
    if conversation is None and tool_results:
        raise TypeError("tool_results need the conversation whose calls they answer: conversation=turn.conversation")
    agent = Agent(model=model or default_model(), system=system, tools=_listed(tools))
    session = Session(agent, () if conversation is None else conversation, store=_or_default(store))
    reply = run_sync(session.think(prompt, tool_results=tool_results))
    if conversation is None and tools is None:
        return reply.text
    return Turn(reply.text, session.messages, reply.message.tool_calls, reply.usage, reply.stop_reason)


def run(
    conversation: str | Iterable[MessageLike],
    tools: Tools | None = None,
    max_turns: int | None = None,
    *,
    model: str | Provider | None = None,
    system: str = "",
    limits: Limits | None = None,
    store: AttachmentStore | None = None,
) -> RunResult:
    """Let a model work with tools until it is done. The conversation may end with calls, with results or with text.

    `max_turns` stands for `limits.turns`. Call it again with the returned conversation to continue. Ctrl-C raises
    KeyboardInterrupt; the conversation as far as it came stands in its `conversation` attribute.

    >>> result = run("What's 2+2?", model="demo")
    >>> result.status, result.turns, result.text
    ('done', 1, '4')
    """
    limits = limits or Limits()
    if max_turns is not None:
        if max_turns < 1:
            raise ValueError(f"max_turns is {max_turns}; a run needs at least 1 turn")
        limits = msgspec.structs.replace(limits, turns=max_turns)
    agent = Agent(model=model or default_model(), system=system, tools=_listed(tools), limits=limits)
    messages = [Message.user(conversation)] if isinstance(conversation, str) else conversation
    session = Session(agent, messages, store=_or_default(store))
    try:
        return run_sync(session.run())
    except KeyboardInterrupt as interrupt:
        interrupt.conversation = session.messages  # type: ignore[attr-defined]
        raise


@overload
def ask(
    prompt: Prompt,
    *,
    model: str | Provider | None = None,
    system: str = "",
    tools: Tools | None = None,
    limits: Limits | None = None,
    store: AttachmentStore | None = None,
) -> str: ...
@overload
def ask(
    prompt: Prompt,
    output: type[T],
    *,
    model: str | Provider | None = None,
    system: str = "",
    tools: Tools | None = None,
    limits: Limits | None = None,
    store: AttachmentStore | None = None,
) -> T: ...
@overload
def ask(
    prompt: Prompt,
    output: Any,
    *,
    model: str | Provider | None = None,
    system: str = "",
    tools: Tools | None = None,
    limits: Limits | None = None,
    store: AttachmentStore | None = None,
) -> Any: ...
def ask(
    prompt: Prompt,
    output: Any = None,
    *,
    model: str | Provider | None = None,
    system: str = "",
    tools: Tools | None = None,
    limits: Limits | None = None,
    store: AttachmentStore | None = None,
) -> Any:
    """Ask, let the model work with tools, and get the answer: text, or what `output` describes.

    `output` is a Python type, of which a value comes back, or a JSON Schema, for which decoded JSON does. Raises
    RunError if the model ends without an answer; its `result` has the run.

    >>> ask("What's 2+2?", model="demo")
    '4'
    """
    agent = Agent(
        model=model or default_model(), system=system, tools=_listed(tools), limits=limits if limits else Limits()
    )
    return run_sync(agent.ask(prompt, output, store=_or_default(store)))


def dumps(conversation: Iterable[MessageLike], *, inline: bool = False, store: AttachmentStore | None = None) -> str:
    """A conversation as JSON. Files are referred to by hash; with `inline` their bytes come along.

    >>> dumps([{"role": "user", "content": "Hello"}])
    '[{"role":"user","content":[{"type":"text","text":"Hello"}]}]'
    """
    return to_json(conversation, _or_default(store) if inline else None)


def loads(text: str | bytes, *, store: AttachmentStore | None = None) -> list[Message]:
    """The conversation that `dumps` wrote, or any JSON in the documented shape.

    >>> loads('[{"role": "user", "content": "Hello"}]')[0].text
    'Hello'
    """
    return from_json(text, _or_default(store))


def default_store() -> AttachmentStore:
    """The store in the data folder, where another process finds the files of a saved conversation again."""
    return FolderStore(lambda: data_folder() / "attachments")


def default_log() -> Log:
    """The log in the data folder, where the terminal program keeps its sessions."""
    from outrider.log.log import Log  # brings SQLite, which most scripts do not need

    return Log(data_folder() / "sessions")


def _listed(tools: Tools | None) -> tuple[Callable[..., Any], ...]:
    return () if tools is None else listed(tools)


def _or_default(store: AttachmentStore | None) -> AttachmentStore:
    return default_store() if store is None else store
