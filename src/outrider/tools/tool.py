"""Tools: Python functions that a model may call.

A tool returns a string, a `ToolResult`, an `Attachment`, any JSON value, or yields progress and then its result. An
exception becomes an error result that the model reads.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias

import msgspec

from outrider.errors import ToolDefinitionError, ValidationError
from outrider.tools.context import ToolContext
from outrider.tools.result import ToolResult, as_result
from outrider.tools.schema import Schema, Signature

if TYPE_CHECKING:
    from typing_extensions import ParamSpec, TypeVar

    P = ParamSpec("P", default=...)
    R = TypeVar("R", default=Any)
else:  # defaults of type variables come with Python 3.13
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")

Effect: TypeAlias = Literal["read", "idempotent", "write"]
"""What a call may change: nothing; the same thing however often it runs; anything (the default)."""
Guidance: TypeAlias = str | Callable[[Any], str]
"""Text for the system prompt, or a function that makes it for an agent."""

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_OF_MODELS = "models give it a meaning of their own"
RESERVED_NAMES = {
    "final": _OF_MODELS,
    "functions": _OF_MODELS,
    "multi_tool_use": _OF_MODELS,
    "report_back": "Outrider gives that name to the tool by which a model reports data (ask(output=…), output_schema)",
}
"""Names that a user's tool cannot have, and why."""


class Tool(msgspec.Struct, Generic[P, R], frozen=True):
    """A function with what a model and the loop must know of it. Calling a tool calls its function."""

    function: Callable[P, R]
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

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return self.signature.schema.json

    def check(self, arguments: dict[str, Any]) -> None:
        """Raise ValidationError if these arguments do not fit."""
        self.signature.bind(self._prepared(arguments))

    def guidance_for(self, agent: Any) -> str:
        """What the system prompt of this agent says of the tool."""
        return self.guidance if isinstance(self.guidance, str) else self.guidance(agent)

    async def invoke(self, arguments: dict[str, Any], context: ToolContext[Any]) -> ToolResult:
        """Validate the arguments, run the function, and make a result of whatever it gives back."""
        args, kwargs = self.signature.bind(self._prepared(arguments))
        if self.signature.injected:
            kwargs[self.signature.injected] = context
        if self.asynchronous:
            outcome: Any = self.function(*args, **kwargs)
        else:
            outcome = await context.threads.run(_call, self.function, args, kwargs, context)
        if inspect.isawaitable(outcome):
            outcome = await outcome
        if isinstance(outcome, AsyncIterator):
            outcome = await _last(outcome, context)
        result = as_result(outcome)
        if context.attachments:
            result = msgspec.structs.replace(result, attachments=(*result.attachments, *context.attachments))
        return result

    def _prepared(self, arguments: dict[str, Any]) -> Any:
        own = _own(arguments)
        return self.prepare(own) if self.prepare and isinstance(own, dict) else own


class ToolMethod:
    """A tool written in a class: each instance has its own tool."""

    def __init__(self, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        self._function = function
        self._options = options

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else make_tool(self._function.__get__(instance, owner), **self._options)


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


def _call(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], context: ToolContext[Any]) -> Any:
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


async def _last(items: AsyncIterator[Any], context: ToolContext[Any]) -> Any:
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
