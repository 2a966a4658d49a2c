"""think() and run() for scripts and notebooks: plain calls that hold, continue and store a conversation."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar, overload

import msgspec

from outrider.agent import Agent, Limits
from outrider.config import data_folder, default_model
from outrider.conversation import MessageLike, from_json, to_json
from outrider.messages import Message, ToolResultBlock, ToolUseBlock, Usage
from outrider.provider import Provider
from outrider.session import Prompt, RunResult, Session
from outrider.store import AttachmentStore, FolderStore

T = TypeVar("T")
ToolResults = Iterable[ToolResultBlock | Mapping[str, Any]]


class Turn(msgspec.Struct, frozen=True):
    """What think() returns when it holds a conversation. Also readable as `turn["conversation"]`."""

    content: str
    """The words of the reply."""
    conversation: list[Message]
    """All messages, this turn's included: pass it on to continue."""
    tool_calls: tuple[ToolUseBlock, ...] = ()
    """The calls that the model asks for; answer them with tool_results=, or let run() do it."""
    usage: Usage = Usage()

    @property
    def has_tool_calls(self) -> bool:
        """Whether the model asks for calls."""
        return bool(self.tool_calls)

    def __getitem__(self, name: str) -> Any:
        if name not in (*self.__struct_fields__, "has_tool_calls"):
            raise KeyError(name)
        return getattr(self, name)


@overload
def think(prompt: Prompt, *, model: str | Provider | None = None, system: str = "") -> str: ...
@overload
def think(
    prompt: Prompt,
    *,
    model: str | Provider | None = None,
    system: str = "",
    conversation: Iterable[MessageLike],
    tools: Iterable[Callable[..., Any]] = (),
    tool_results: ToolResults = (),
    store: AttachmentStore | None = None,
) -> Turn: ...
def think(
    prompt: Prompt,
    *,
    model: str | Provider | None = None,
    system: str = "",
    conversation: Iterable[MessageLike] | None = None,
    tools: Iterable[Callable[..., Any]] = (),
    tool_results: ToolResults = (),
    store: AttachmentStore | None = None,
) -> str | Turn:
    """Ask a model once. Alone it returns a string; with a conversation, a turn that can be continued.

    The conversation that is given is not changed. Tools are offered to the model, but not run: `run` does that, or you
    do, and hand back `tool_results=[{"tool_use_id": …, "content": …}]`.

    >>> think("What's 2+2?", model="demo")
    '4'
    >>> turn = think("What's 2+2?", model="demo", conversation=[])
    >>> turn.content, len(turn.conversation), turn.has_tool_calls
    ('4', 2, False)
    """
    tools = tuple(tools)
    if conversation is None and (tools or tool_results):
        raise TypeError("tools and tool_results need a conversation: pass conversation=[] to begin one")
    agent = Agent(model=model or default_model(), system=system, tools=tools)
    session = Session(agent, conversation or (), store=store or default_store())
    reply = drive(session.think(prompt, tool_results=tool_results))
    if conversation is None:
        return reply.text
    return Turn(reply.text, session.messages, reply.message.tool_calls, reply.usage)


def run(
    conversation: str | Iterable[MessageLike],
    tools: Iterable[Callable[..., Any]] = (),
    max_turns: int = 50,
    *,
    model: str | Provider | None = None,
    system: str = "",
    limits: Limits | None = None,
    store: AttachmentStore | None = None,
) -> RunResult:
    """Let a model work with tools until it is done. The conversation may end with calls, with results or with text.

    Call it again with the returned conversation to continue. Ctrl-C raises KeyboardInterrupt; the conversation as far
    as it came stands in its `conversation` attribute.

    >>> result = run("What's 2+2?", model="demo")
    >>> result.status, result.turns, result.text
    ('done', 1, '4')
    """
    if max_turns < 1:
        raise ValueError(f"max_turns is {max_turns}; a run needs at least 1 turn")
    limits = msgspec.structs.replace(limits or Limits(), turns=max_turns)
    agent = Agent(model=model or default_model(), system=system, tools=tuple(tools), limits=limits)
    messages = [Message.user(conversation)] if isinstance(conversation, str) else conversation
    session = Session(agent, messages, store=store or default_store())
    try:
        return drive(session.run())
    except KeyboardInterrupt as interrupt:
        interrupt.conversation = session.messages  # type: ignore[attr-defined]
        raise


def dumps(conversation: Iterable[MessageLike], *, inline: bool = False, store: AttachmentStore | None = None) -> str:
    """A conversation as JSON. Files are referred to by hash; with `inline` their bytes come along.

    >>> dumps([{"role": "user", "content": "Hello"}])
    '[{"role":"user","content":[{"type":"text","text":"Hello"}]}]'
    """
    return to_json(conversation, (store or default_store()) if inline else None)


def loads(text: str | bytes, *, store: AttachmentStore | None = None) -> list[Message]:
    """The conversation that `dumps` wrote, or any JSON in the documented shape.

    >>> loads('[{"role": "user", "content": "Hello"}]')[0].text
    'Hello'
    """
    return from_json(text, store or default_store())


def default_store() -> AttachmentStore:
    """The store in the data folder, where another process finds the files of a saved conversation again."""
    return FolderStore(data_folder() / "attachments")


def drive(work: Coroutine[Any, Any, T]) -> T:
    """Run async work to its end, also where an event loop runs already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _drive_here(work)
    return _drive_in_thread(work)


def _drive_here(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner() as runner:
        task = runner.get_loop().create_task(work)

        async def outcome() -> T:
            return await task

        while True:
            try:
                return runner.run(outcome())
            except RuntimeError:
                # A tool that stopped the loop under us has not stopped the work.
                if task.done():
                    raise


def _drive_in_thread(work: Coroutine[Any, Any, T]) -> T:
    """In a thread of its own, whose loop the running one cannot disturb. The caller waits, as it asked to."""
    outcome: list[T] = []
    failure: list[BaseException] = []

    def target() -> None:
        try:
            outcome.append(_drive_here(work))
        except BaseException as error:  # noqa: BLE001 - it is raised again in the caller's thread
            failure.append(error)

    thread = threading.Thread(target=target, name="outrider-run", daemon=True)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]
