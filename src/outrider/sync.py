"""Synchronous API for scripts and notebooks: think(), run(), ask(), dumps() and loads()."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

import msgspec

from outrider.conversation.codec import MessageLike, from_json, read_conversation, stored_messages, to_json
from outrider.conversation.messages import Message, ToolResultBlock
from outrider.conversation.prompt import Prompt
from outrider.conversation.store import AttachmentStore, default_store
from outrider.environment import default_model, log_place
from outrider.providers.resolution import Models, several
from outrider.runtime.agent import Agent
from outrider.runtime.agent_spec import AgentSpec
from outrider.runtime.compaction import Compaction
from outrider.runtime.event_loop import check_may_block, run_sync
from outrider.runtime.limits import Limits
from outrider.runtime.run import RunResult
from outrider.runtime.run_scope import ModelOptions, check_options
from outrider.runtime.session import ONE_RUN_SECONDS, Session
from outrider.runtime.turn import Turn, take_turn
from outrider.tools.tool import check_tool_list, make_tools

if TYPE_CHECKING:
    from outrider.log.log import Log
    from outrider.mcp.session_servers import Mcp
    from outrider.runtime.structured_output import OutputForm

T = TypeVar("T")
Tools = Iterable[Callable[..., Any]]
ToolResults = Iterable[ToolResultBlock | Mapping[str, Any]]
DEFAULT_COMPACTION = Compaction()


class ScriptOptions(ModelOptions, total=False):
    """What `think` takes beside the conversation."""

    model: Models | None
    """The name of a model, or a provider, or a list: the next goes on if one cannot answer. Without one,
    `OUTRIDER_MODEL` or a balanced model."""
    system: str
    """The system prompt."""
    store: AttachmentStore | None
    """Where the files of the conversation are; without one, in the data folder."""


class ToolOptions(ScriptOptions, total=False):
    """What `run` and `ask` take beside the prompt, the tools and the output."""

    mcp: Mcp
    """MCP servers, whose tools join the others."""
    limits: Limits | None
    """Where the run stops."""


@overload
def think(
    prompt: Prompt,
    *,
    conversation: None = None,
    tools: None = None,
    tool_results: None = None,
    **options: Unpack[ScriptOptions],
) -> str: ...
@overload
def think(
    prompt: Prompt = "",
    *,
    conversation: Iterable[MessageLike],
    tools: Tools | None = None,
    tool_results: ToolResults | None = None,
    **options: Unpack[ScriptOptions],
) -> Turn: ...
@overload
def think(
    prompt: Prompt,
    *,
    conversation: None = None,
    tools: Tools,
    tool_results: None = None,
    **options: Unpack[ScriptOptions],
) -> Turn: ...
def think(
    prompt: Prompt = "",
    *,
    model: Models | None = None,
    system: str = "",
    conversation: Iterable[MessageLike] | None = None,
    tools: Tools | None = None,
    tool_results: ToolResults | None = None,
    store: AttachmentStore | None = None,
    **settings: Unpack[ModelOptions],
) -> str | Turn:
    """Ask a model once. Returns a string, or, with a conversation or tools, a `Turn` that can be continued.

    The prompt follows the conversation, which is not changed; with tools and no conversation a new one starts. The
    model may request tools, but they do not run here: `run` does that, or `tool_results=turn.run_calls(tools)`, or you
    run them and pass `tool_results=[{"tool_use_id": …, "content": …}]`; no prompt is needed then. The whole
    conversation is sent, in one request.
    If it is longer than the model's context window, ContextExceededError is raised.

    >>> think("What's 2+2?", model="demo")
    '4'
    >>> turn = think("What's 2+2?", model="demo", conversation=[])
    >>> turn.text, turn.conversation[1].text, turn.has_tool_calls
    ('4', '4', False)
    >>> turn["conversation"]  # plain data, for json.dumps()
    [{'role': 'user', 'content': "What's 2+2?"}, {'role': 'assistant', 'content': '4', 'has_tool_calls': False}]
    """
    check_may_block("think", "await agent.think(prompt)")
    check_options("think", settings, ("conversation", "tools", "tool_results", *ScriptOptions.__annotations__))
    if conversation is None and tool_results:
        raise TypeError("tool_results needs the conversation with the calls: pass conversation=turn.conversation")
    # Tools do not run here: AgentSpec does not ask for the deps of those that want some.
    first, *others = several(_or_default_model(model))
    made = make_tools(_tool_list(tools))
    agent = AgentSpec(first, fallbacks=tuple(others), system=system, tools=made, compaction=None, **settings)
    session = Session(agent, () if conversation is None else conversation, store=store)
    turn = run_sync(take_turn(session, prompt, tool_results))
    return turn.text if conversation is None and tools is None else turn


@overload
def run(
    prompt: Prompt,
    tools: Tools | None = None,
    max_turns: int | None = None,
    *,
    output: None = None,
    compaction: Compaction | None = DEFAULT_COMPACTION,
    **options: Unpack[ToolOptions],
) -> RunResult[str]: ...
@overload
def run(
    prompt: Prompt,
    tools: Tools | None = None,
    max_turns: int | None = None,
    *,
    output: type[T],
    compaction: Compaction | None = DEFAULT_COMPACTION,
    **options: Unpack[ToolOptions],
) -> RunResult[T]: ...
@overload
def run(
    prompt: Prompt,
    tools: Tools | None = None,
    max_turns: int | None = None,
    *,
    output: OutputForm,
    compaction: Compaction | None = DEFAULT_COMPACTION,
    **options: Unpack[ToolOptions],
) -> RunResult[Any]: ...
def run(
    prompt: Prompt,
    tools: Tools | None = None,
    max_turns: int | None = None,
    *,
    output: Any = None,
    model: Models | None = None,
    system: str = "",
    mcp: Mcp = (),
    limits: Limits | None = None,
    compaction: Compaction | None = DEFAULT_COMPACTION,
    store: AttachmentStore | None = None,
    **settings: Unpack[ModelOptions],
) -> RunResult[Any]:
    """Run a model with tools until it is done. A conversation as the prompt may end with calls, results or text.

    `output` is a Python type, of which `result.output` is a value, or a JSON Schema, for which it is decoded JSON;
    without it `result.output` is the text. `max_turns` overrides `limits.max_turns`. A conversation that fills the
    context window is shortened in requests, not in the result; `compaction=None` turns that off. Call it again with the
    returned conversation to continue. Ctrl-C raises KeyboardInterrupt; its `conversation` attribute has the messages so
    far.

    >>> result = run("What's 2+2?", model="demo")
    >>> result.status, result.turns, result.text
    ('done', 1, '4')
    """
    check_may_block("run", "await agent.run(prompt)")
    check_options("run", settings, ("tools", "max_turns", "output", "compaction", *ToolOptions.__annotations__))
    agent = Agent(
        model=_or_default_model(model),
        system=system,
        tools=_tool_list(tools),
        mcp=mcp,
        limits=_limits(limits or Limits(), max_turns),
        compaction=compaction,
        **settings,
    )
    session = Session(agent, store=store)
    session.wait_for_servers(ONE_RUN_SECONDS)
    try:
        return run_sync(session.run(prompt, output=output))
    except KeyboardInterrupt as interrupt:
        interrupt.conversation = session.messages  # type: ignore[attr-defined]
        raise
    finally:
        session.close()


@overload
def ask(prompt: Prompt, *, tools: Tools | None = None, **options: Unpack[ToolOptions]) -> str: ...
@overload
def ask(prompt: Prompt, output: type[T], *, tools: Tools | None = None, **options: Unpack[ToolOptions]) -> T: ...
@overload
def ask(prompt: Prompt, output: OutputForm, *, tools: Tools | None = None, **options: Unpack[ToolOptions]) -> Any: ...
def ask(
    prompt: Prompt,
    output: Any = None,
    *,
    model: Models | None = None,
    system: str = "",
    tools: Tools | None = None,
    mcp: Mcp = (),
    limits: Limits | None = None,
    store: AttachmentStore | None = None,
    **settings: Unpack[ModelOptions],
) -> Any:
    """Run a model with tools and return the `output` of the run: text, or what `output` describes.

    Raises RunError if the run ends without an answer; its `result` is the run.

    >>> ask("What's 2+2?", model="demo")
    '4'
    """
    check_may_block("ask", "await agent.ask(prompt)")
    check_options("ask", settings, ("tools", "output", *ToolOptions.__annotations__))
    agent = Agent(
        model=_or_default_model(model),
        system=system,
        tools=_tool_list(tools),
        mcp=mcp,
        limits=limits or Limits(),
        **settings,
    )
    return run_sync(agent.ask(prompt, output, store=store))


def dumps(conversation: Iterable[MessageLike], *, inline: bool = False, store: AttachmentStore | None = None) -> str:
    """Return a conversation as JSON. Files are referenced by hash; with `inline` their bytes are included.

    >>> dumps([{"role": "user", "content": "Hello"}])
    '[{"role":"user","content":[{"type":"text","text":"Hello"}]}]'
    """
    messages = stored_messages(read_conversation(conversation), _or_default(store))
    return to_json(messages, _or_default(store) if inline else None)


def loads(text: str | bytes, *, store: AttachmentStore | None = None) -> list[Message]:
    """Return the conversation in JSON that `dumps` wrote, or in any JSON of the documented format.

    >>> loads('[{"role": "user", "content": "Hello"}]')[0].text
    'Hello'
    """
    return from_json(text, _or_default(store))


def default_log() -> Log:
    """Return the log of the terminal program: that of `OUTRIDER_LOG`, else the one in the data folder."""
    from outrider.log.log import Log  # imports SQLite, which most scripts do not need

    return Log(log_place())


def _limits(limits: Limits, max_turns: int | None) -> Limits:
    if max_turns is None:
        return limits
    if not isinstance(max_turns, int) or max_turns < 1:
        raise ValueError(f"max_turns is {max_turns!r}; it must be a whole number, at least 1")
    return msgspec.structs.replace(limits, max_turns=max_turns)


def _tool_list(tools: Tools | None) -> tuple[Callable[..., Any], ...]:
    return () if tools is None else check_tool_list(tools)


def _or_default_model(model: Models | None) -> Models:
    return default_model() if model is None or model == "" else model


def _or_default(store: AttachmentStore | None) -> AttachmentStore:
    return default_store() if store is None else store
