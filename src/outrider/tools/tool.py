"""Tools: Python functions that a model may call.

A tool returns a string, a `ToolResult`, an `Attachment`, any JSON value, or yields progress and then its result. What
it raises becomes an error result that the model reads.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import msgspec

from outrider.conversation.attachments import Attachment, sha256
from outrider.conversation.messages import AttachmentBlock
from outrider.conversation.store import SIZE_UNKNOWN, AttachmentStore
from outrider.errors import AttachmentError, ToolDefinitionError, ValidationError
from outrider.tools.result import ToolResult, as_attachment, as_result
from outrider.tools.schema import Schema, Signature
from outrider.tools.threads import Threads

if TYPE_CHECKING:
    from outrider.runtime.agent import Agent
    from outrider.runtime.session import Session
    from outrider.tools.approval import Approver

Effect: TypeAlias = Literal["read", "idempotent", "write"]
"""What a call may change: nothing; the same thing however often it runs; anything (the default)."""

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_OF_MODELS = "models give it a meaning of their own"
RESERVED_NAMES = {
    "final": _OF_MODELS,
    "functions": _OF_MODELS,
    "multi_tool_use": _OF_MODELS,
    "report_back": "Outrider gives that name to the tool by which a model reports data (ask(output=…), output_schema)",
}
"""Names that a user's tool cannot have, and why."""


class SubagentTask(msgspec.Struct, frozen=True):
    """What a sub-agent is sent out for."""

    call_id: str
    """The call that sends it."""
    session: str
    """The id that its session has in a log: the same when the call is carried out again."""
    title: str
    """What it is to do, in a few words."""
    is_over: Callable[[], bool]
    """Whether the call has its answer: what the sub-agent still does is then shown to nobody."""


Spawn: TypeAlias = "Callable[[SubagentTask, Agent, Approver | None, Path | None], Awaitable[Session]]"
Guidance: TypeAlias = str | Callable[[Any], str]
"""Words for the system prompt: the same for every agent that has the tool, or made for each, which it is given."""


class ToolContext:
    """What a running tool knows of its call. Ask for it with a parameter of this type."""

    __slots__ = (
        *("_answered", "_attachments", "_cancelled", "_progress", "_spawn", "_spawned", "_store", "_threads"),
        *("call_id", "cwd", "key"),
    )

    def __init__(
        self,
        call_id: str,
        cwd: Path,
        threads: Threads,
        progress: Callable[[Any], None],
        key: str = "",
        store: AttachmentStore | None = None,
        spawn: Spawn | None = None,
    ) -> None:
        self.call_id = call_id
        """The id of the call in the conversation."""
        self.key = key
        """The idempotency key: the same when the call is carried out again after a crash, and no other call's."""
        self.cwd = cwd
        """The session's working directory."""
        self._threads = threads
        self._progress = progress
        self._store = store
        self._spawn = spawn
        self._spawned = 0
        self._attachments: list[Attachment] = []
        self._cancelled = False
        self._answered = False

    def progress(self, content: Any) -> None:
        """Show observers how far it is: text or any JSON value. Safe from any thread."""
        self._progress(content)

    def attach(self, attachment: Attachment | str | Path) -> None:
        """Add a file to the result."""
        self._attachments.append(as_attachment(attachment))

    def stored(self, sha256: str) -> bytes:
        """The bytes of a file of this session, by its hash. Raises AttachmentError."""
        if self._store is None:
            raise AttachmentError("this session has no stored files")
        return self._store.read(AttachmentBlock(sha256, "", SIZE_UNKNOWN, f"attachment:{sha256[:12]}"))

    async def spawn(
        self, agent: Agent, *, title: str = "", approve: Approver | None = None, cwd: Path | None = None
    ) -> Session:
        """A session for a sub-agent: run it, and close it. Observers see what it does below this call.

        In a log it is a session of its own. When this call is carried out again after a crash, it is the same session,
        with all that was said there: go on with `run()`. A sub-agent cannot send out others. Without an approver of its
        own it has that of this session, and what it uses counts for the run that this call belongs to.
        """
        if self._spawn is None:
            raise RuntimeError("a sub-agent cannot send out sub-agents")
        self._spawned += 1
        name = sha256(f"{self.key}/{self._spawned}".encode(errors="surrogatepass"))[:32]
        return await self._spawn(SubagentTask(self.call_id, name, title, lambda: self._answered), agent, approve, cwd)

    @property
    def has_spawned(self) -> bool:
        """Whether it has sent out a sub-agent."""
        return self._spawned > 0

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the result any more. A tool in a thread should look now and then, and stop."""
        return self._cancelled

    def cancel(self) -> None:
        """Tell the tool that nobody waits for it any more."""
        self._cancelled = True

    def close(self) -> None:
        """The call has its answer: nothing more is shown of it."""
        self._answered = True


class Tool(msgspec.Struct, frozen=True):
    """A function with what a model and the loop must know of it. Calling it calls the function."""

    function: Callable[..., Any]
    name: str
    description: str
    signature: Signature
    effect: Effect = "write"
    timeout: float | None = None
    """Seconds until the call is given up; None leaves it to the agent's limits."""
    concurrent: bool = True
    """Whether it may run beside other calls of the same turn."""
    guidance: Guidance = ""
    """What the system prompt says of it, wherever an agent has it."""
    asynchronous: bool = False
    """Whether the function gives back something to await or to iterate; otherwise it runs in a thread."""
    final_turn: str = ""
    """What a model that has the tool is told on its last turn, in place of "give your final answer"."""
    result_characters: int | None = None
    """What the model gets to read of a result, if that is less than the agent's limits allow; the whole is stored."""
    prepare: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    """Rewrites arguments as other programs would give them, before they are checked."""
    built_in: bool = False
    """Whether it is Outrider's own, which may have a reserved name."""

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ToolDefinitionError(
                f"{self.name!r} cannot be a tool's name: models take 1 to 64 letters, digits, '_' and '-'; "
                "give another with @tool(name=…)"
            )
        if self.name in RESERVED_NAMES and not self.built_in:
            raise ToolDefinitionError(
                f"{self.name!r} is a reserved name: {RESERVED_NAMES[self.name]}; give another with @tool(name=…)"
            )
        if self.effect not in ("read", "idempotent", "write"):
            raise ToolDefinitionError(
                f"the effect of {self.name} is {self.effect!r}; it must be read, idempotent or write"
            )
        if self.timeout is not None and not self.timeout > 0:
            raise ToolDefinitionError(f"the time-out of {self.name} is {self.timeout}; it must be more than 0 seconds")
        if self.result_characters is not None and not self.result_characters > 0:
            raise ToolDefinitionError(
                f"result_characters of {self.name} is {self.result_characters}; it must be more than 0"
            )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return self.signature.schema.json

    def check(self, arguments: dict[str, Any]) -> None:
        """Raise ValidationError if these arguments do not fit."""
        self.signature.bind(self._prepared(arguments))

    def guidance_for(self, agent: Agent) -> str:
        """What the system prompt of this agent says of the tool."""
        return self.guidance if isinstance(self.guidance, str) else self.guidance(agent)

    async def invoke(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Validate the arguments, run the function, and make a result of whatever it gives back."""
        args, kwargs = self.signature.bind(self._prepared(arguments))
        if self.signature.injected:
            kwargs[self.signature.injected] = context
        if self.asynchronous:
            outcome = self.function(*args, **kwargs)
        else:
            outcome = await context._threads.run(_call, self.function, args, kwargs, context)
        if inspect.isawaitable(outcome):
            outcome = await outcome
        if isinstance(outcome, AsyncIterator):
            outcome = await _last(outcome, context)
        result = as_result(outcome)
        if context._attachments:
            result = msgspec.structs.replace(result, attachments=(*result.attachments, *context._attachments))
        return result

    def _prepared(self, arguments: dict[str, Any]) -> Any:
        own = _own(arguments)
        return self.prepare(own) if self.prepare and isinstance(own, dict) else own


class ToolMethod:
    """A tool written in a class: each instance has its own."""

    def __init__(self, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        self._function = function
        self._options = options

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else make_tool(self._function.__get__(instance, owner), **self._options)


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect = "write",
    timeout: float | None = None,
    concurrent: bool = True,
    schema: Mapping[str, Any] | None = None,
    guidance: Guidance = "",
    final_turn: str = "",
    result_characters: int | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a tool of a function: its name, its docstring and its annotations are what the model is told.

    `name` and `description` replace those of the function. `effect` says what a call may change: "read" nothing,
    "idempotent" the same thing however often it runs, "write" anything. `timeout` is in seconds; `concurrent=False`
    lets it run alone. With a `schema` of your own, the arguments that satisfy it are passed as keywords, as they are.
    `guidance` stands in the system prompt wherever an agent has the tool: words, or a function that makes them for an
    agent. `final_turn` is what the model is told on its last turn, in place of "give your final answer".
    `result_characters` is what it gets to read of a result, if that is less than the agent's limits allow.

    >>> @tool(effect="read")
    ... def add(a: int, b: int = 1) -> int:
    ...     "Add two numbers."
    ...     return a + b
    >>> add.parameters["required"], add(2, 2)
    (['a'], 4)
    """
    namespace = sys._getframe(1).f_locals  # for annotations that name types of the caller

    def decorate(function: Callable[..., Any]) -> Tool | ToolMethod:
        if _is_method_in_class_body(function):
            return ToolMethod(function, options)
        return make_tool(function, namespace=namespace, **options)

    return decorate if function is None else decorate(function)


def make_tool(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect = "write",
    timeout: float | None = None,
    concurrent: bool = True,
    schema: Mapping[str, Any] | None = None,
    namespace: Mapping[str, Any] | None = None,
    **more: Any,
) -> Tool:
    """A tool from a function, or the tool itself if it is one already. `more` are other fields of a Tool."""
    if isinstance(function, Tool):
        return function
    if isinstance(function, ToolMethod):
        raise ToolDefinitionError("a tool written in a class belongs to an instance: take it from one")
    if not callable(function):
        raise ToolDefinitionError(f"a tool is a function or a Tool, not {type(function).__name__}")
    if schema is None:
        signature = Signature.of(function, inject=ToolContext, namespace=namespace)
    else:
        signature = Signature.with_schema(function, Schema.of(schema), inject=ToolContext, namespace=namespace)
    return Tool(
        function,
        signature.name if name is None else name,
        signature.description if description is None else description,
        signature,
        effect,
        timeout,
        concurrent,
        asynchronous=is_async(function),
        **more,
    )


def listed(functions: Iterable[Callable[..., Any]]) -> tuple[Callable[..., Any], ...]:
    """What is to be a list of functions, if it is one."""
    if callable(functions) or not isinstance(functions, Iterable):
        raise ToolDefinitionError("tools is a list of functions; write tools=[…]")
    return tuple(functions)


def make_tools(functions: Iterable[Callable[..., Any]]) -> tuple[Tool, ...]:
    """Tools from functions; two of one name are refused."""
    tools = tuple(map(make_tool, listed(functions)))
    names: set[str] = set()
    for each in tools:
        if each.name in names:
            raise ToolDefinitionError(f"two tools have the name {each.name!r}; give one of them another with name=")
        names.add(each.name)
    return tools


def _own(arguments: dict[str, Any]) -> Any:
    try:
        return _copied(arguments)
    except RecursionError:
        raise ValidationError(["(the value): is nested too deeply"]) from None


def _copied(value: Any) -> Any:
    """The value with containers of its own: what a tool does to its arguments must not reach the history."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives something to await or iterate. Decorators are judged by what they are."""
    while isinstance(function, functools.partial):
        function = function.func
    candidates = (function, getattr(type(function), "__call__", None))  # noqa: B004 - the method itself is wanted
    return any(inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each) for each in candidates)


def _is_method_in_class_body(function: Callable[..., Any]) -> bool:
    code = getattr(function, "__code__", None)
    owner = getattr(function, "__qualname__", "").rpartition(".")[0]
    return bool(code and code.co_varnames[:1] == ("self",) and owner and not owner.endswith("<locals>"))


def _call(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], context: ToolContext) -> Any:
    """Call a function in its thread; a generator is run to its end there too."""
    outcome = function(*args, **kwargs)
    if not inspect.isgenerator(outcome):
        return outcome
    last: Any = None
    with contextlib.closing(outcome):
        while not context.cancelled:
            try:
                item = next(outcome)
            except StopIteration as end:
                return last if end.value is None else end.value
            if isinstance(item, ToolResult):
                return item
            context.progress(item)
            last = item
    return last


async def _last(items: AsyncIterator[Any], context: ToolContext) -> Any:
    """Show each item as progress. A ToolResult ends the call; without one the last item is the result."""
    last: Any = None
    try:
        async for item in items:
            if isinstance(item, ToolResult):
                return item
            context.progress(item)
            last = item
    finally:
        close = getattr(items, "aclose", None)
        if close is not None:
            await close()
    return last
