"""Synchronous API for scripts and notebooks: think(), run(), ask(), dumps() and loads()."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec

from outrider.conversation.codec import MessageLike, from_json, to_json
from outrider.conversation.items import ByItem
from outrider.conversation.messages import Message, ToolResultBlock, ToolUseBlock, Usage, plain_calls
from outrider.conversation.prompt import Prompt
from outrider.conversation.store import AttachmentStore, FolderStore
from outrider.environment import data_folder, default_model, log_place
from outrider.providers.base import Provider, StopReason
from outrider.runtime.agent import Agent
from outrider.runtime.compaction import Compaction
from outrider.runtime.event_loop import run_sync
from outrider.runtime.limits import Limits
from outrider.runtime.run import RunResult
from outrider.runtime.session import ONE_RUN_SECONDS, Session
from outrider.tools.tool import check_tool_list

if TYPE_CHECKING:
    from outrider.log.log import Log
    from outrider.runtime.session_servers import Mcp

T = TypeVar("T")
Tools = Iterable[Callable[..., Any]]
ToolResults = Iterable[ToolResultBlock | Mapping[str, Any]]
DEFAULT_COMPACTION = Compaction()


class Turn(ByItem, msgspec.Struct, frozen=True):
    """One turn of a conversation, as think() returns it.

    Attributes are typed: `turn.conversation` has messages. Items are plain data: `turn["conversation"]` is a list of
    dicts, which json.dumps() takes and think() and run() continue. `dict(turn)` has them all.
    """

    content: str
    """The text of the reply."""
    conversation: list[Message]
    """All messages, including this turn's. Pass them to think() or run() to continue."""
    tool_calls: tuple[ToolUseBlock, ...] = ()
    """The calls that the model requests. Answer them with `tool_results=`, or let run() do it."""
    usage: Usage = Usage()
    stop_reason: StopReason = StopReason.END
    """Why the reply ended: `max_tokens` if it was truncated, `refusal`, `content_filter` and so on."""

    def _repr_html_(self) -> str:
        """Return the conversation as a notebook shows it."""
        from outrider.conversation.html import conversation_html  # only notebooks need it

        return conversation_html(self.conversation, _or_default(None))

    @property
    def text(self) -> str:
        """The text of the reply, as in `RunResult.text`."""
        return self.content

    @property
    def has_tool_calls(self) -> bool:
        """Whether the model requests calls."""
        return bool(self.tool_calls)

    def keys(self) -> tuple[str, ...]:
        """Return the keys of `dict(turn)`."""
        return *super().keys(), "has_tool_calls"

    def __getitem__(self, name: str) -> Any:
        return plain_calls(self.tool_calls) if name == "tool_calls" else super().__getitem__(name)


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
    """Ask a model once. Returns a string, or, with a conversation or tools, a `Turn` that can be continued.

    The given conversation is not changed; with tools and no conversation a new one starts. The model may request tools,
    but they do not run here: `run` does that, or you run them and pass
    `tool_results=[{"tool_use_id": …, "content": …}]`. The whole conversation is sent, in one request. If it is longer
    than the model's context window, ContextExceededError is raised.

    >>> think("What's 2+2?", model="demo")
    '4'
    >>> turn = think("What's 2+2?", model="demo", conversation=[])
    >>> turn.content, turn.conversation[1].text, turn.has_tool_calls
    ('4', '4', False)
    >>> turn["conversation"]  # plain data, for json.dumps()
    [{'role': 'user', 'content': "What's 2+2?"}, {'role': 'assistant', 'content': '4', 'has_tool_calls': False}]
    """
    if conversation is None and tool_results:
        raise TypeError("tool_results needs the conversation with the calls: pass conversation=turn.conversation")
    agent = Agent(model=model or default_model(), system=system, tools=_tool_list(tools), compaction=None)
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
    mcp: Mcp = (),
    limits: Limits | None = None,
    compaction: Compaction | None = DEFAULT_COMPACTION,
    store: AttachmentStore | None = None,
) -> RunResult:
    """Run a model with tools until it is done. The conversation may end with calls, with results or with text.

    `max_turns` overrides `limits.max_turns`. A conversation that fills the context window is shortened in requests, not
    in the result; `compaction=None` turns that off. Call it again with the returned conversation to continue. Ctrl-C
    raises KeyboardInterrupt; its `conversation` attribute has the messages so far.

    >>> result = run("What's 2+2?", model="demo")
    >>> result.status, result.turns, result.text
    ('done', 1, '4')
    """
    limits = limits or Limits()
    if max_turns is not None:
        if max_turns < 1:
            raise ValueError(f"max_turns is {max_turns}; a run needs at least 1 turn")
        limits = msgspec.structs.replace(limits, max_turns=max_turns)
    agent = Agent(
        model=model or default_model(),
        system=system,
        tools=_tool_list(tools),
        mcp=mcp,
        limits=limits,
        compaction=compaction,
    )
    messages = [Message.user(conversation)] if isinstance(conversation, str) else conversation
    session = Session(agent, messages, store=_or_default(store))
    session.wait_for_servers(ONE_RUN_SECONDS)
    try:
        return run_sync(session.run())
    except KeyboardInterrupt as interrupt:
        interrupt.conversation = session.messages  # type: ignore[attr-defined]
        raise
    finally:
        session.close()


@overload
def ask(
    prompt: Prompt,
    *,
    model: str | Provider | None = None,
    system: str = "",
    tools: Tools | None = None,
    mcp: Mcp = (),
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
    mcp: Mcp = (),
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
    mcp: Mcp = (),
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
    mcp: Mcp = (),
    limits: Limits | None = None,
    store: AttachmentStore | None = None,
) -> Any:
    """Run a model with tools and return its answer: text, or a value of `output`.

    `output` is a Python type, for which a value of that type is returned, or a JSON Schema, for which decoded JSON is
    returned. Raises RunError if the run ends without an answer; its `result` is the run.

    >>> ask("What's 2+2?", model="demo")
    '4'
    """
    agent = Agent(
        model=model or default_model(), system=system, tools=_tool_list(tools), mcp=mcp, limits=limits or Limits()
    )
    return run_sync(agent.ask(prompt, output, store=_or_default(store)))


def dumps(conversation: Iterable[MessageLike], *, inline: bool = False, store: AttachmentStore | None = None) -> str:
    """Return a conversation as JSON. Files are referenced by hash; with `inline` their bytes are included.

    >>> dumps([{"role": "user", "content": "Hello"}])
    '[{"role":"user","content":[{"type":"text","text":"Hello"}]}]'
    """
    return to_json(conversation, _or_default(store) if inline else None)


def loads(text: str | bytes, *, store: AttachmentStore | None = None) -> list[Message]:
    """Return the conversation in JSON that `dumps` wrote, or in any JSON of the documented format.

    >>> loads('[{"role": "user", "content": "Hello"}]')[0].text
    'Hello'
    """
    return from_json(text, _or_default(store))


def default_store() -> AttachmentStore:
    """Return the store in the data folder, where other processes find the files of a saved conversation."""
    return FolderStore(lambda: data_folder() / "attachments")


def default_log() -> Log:
    """Return the log of the terminal program: that of `OUTRIDER_LOG`, else the one in the data folder."""
    from outrider.log.log import Log  # imports SQLite, which most scripts do not need

    return Log(log_place())


def _tool_list(tools: Tools | None) -> tuple[Callable[..., Any], ...]:
    return () if tools is None else check_tool_list(tools)


def _or_default(store: AttachmentStore | None) -> AttachmentStore:
    return default_store() if store is None else store
