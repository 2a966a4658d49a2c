"""Tools: Python functions that a model may call.

A tool returns a string, a `ToolResult`, an `Attachment` or any JSON value, or yields progress and then its result. An
exception becomes an error result, which the model reads.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, overload

import msgspec

from outrider.errors import ToolDefinitionError, ValidationError
from outrider.tools.context import ToolContext
from outrider.tools.result import ToolResult, as_result, has_pictures

if TYPE_CHECKING:
    from typing_extensions import ParamSpec, TypeVar

    from outrider.tools.schema import Signature

    P = ParamSpec("P", default=...)
    R = TypeVar("R", default=Any)
else:  # type variables have defaults only since Python 3.13
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")
    Signature = Any  # tools that evaluate annotations, such as help(), need not import the schemas

Effect: TypeAlias = Literal["read", "idempotent", "write"]
"""What a call may change: nothing; the same thing however often it runs; anything (the default)."""
Guidance: TypeAlias = str | Callable[[Any], str]
"""Text for the system prompt, or a function that returns it for an agent."""

NAME = r"[a-zA-Z0-9_-]{1,64}"
_MODEL_INTERNAL = "models use it for a purpose of their own"
RESERVED_NAMES = {
    "final": _MODEL_INTERNAL,
    "functions": _MODEL_INTERNAL,
    "multi_tool_use": _MODEL_INTERNAL,
    "report_back": "Outrider's own tool for structured output has this name (ask(output=…), output_schema)",
}
"""Names that user-defined tools cannot have, with the reason."""


class Tool(msgspec.Struct, Generic[P, R], frozen=True):
    """A function that a model can call, with its schema and options. Calling a tool calls its function."""

    function: Callable[P, R]
    name: str
    description: str
    signature: Signature
    effect: Effect = "write"
    timeout: float | None = None
    """Seconds until a call times out; None for the agent's limit."""
    concurrent: bool = True
    """Whether a call may run in parallel with other calls of the same turn."""
    guidance: Guidance = ""
    """Text that is added to the system prompt of agents that have the tool."""
    asynchronous: bool = False
    """Whether the function returns an awaitable or an async iterator; otherwise it runs in a thread."""
    final_turn: str = ""
    """Text that replaces "give your final answer" on the model's last turn."""
    result_characters: int | None = None
    """How much of a result the model reads, if less than the agent's limit; the whole result is stored."""
    prepare: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    """Rewrites the arguments before validation, for example from the spelling of other programs."""
    built_in: bool = False
    """Whether the tool is part of Outrider and may have a reserved name."""
    lasting: bool | str = False
    """Whether the newest result describes the state of the work, such as a list of steps: it outlives a compaction. A
    name: instead, that argument of the newest call that succeeded does."""
    shown: dict[str, Any] | None = None
    """The JSON Schema that the model sees, if it leaves something out; the tool takes all of its arguments."""
    stands_for: Callable[[dict[str, Any]], tuple[Tool, dict[str, Any]] | None] | None = None
    """Returns the tool and the arguments that a call stands for, if it is another tool's: the call is then approved,
    recorded and run as that tool's."""
    approval: str = ""
    """`later`: each call waits until a person allows it with `log.answer`, also if there is an approver."""
    reads_stored: bool = False
    """Whether the tool takes `attachment:…`, the reference in a result that was cut. Agents without one get Recall."""
    needs_results: bool = False
    """Whether a call does not count beside calls that look something up, because it was made without their results."""

    def __post_init__(self) -> None:
        if not re.fullmatch(NAME, self.name):
            raise ToolDefinitionError(
                f"{self.name!r} is not a valid tool name: use 1 to 64 letters, digits, '_' and '-'; "
                "choose another with @tool(name=…)"
            )
        if self.name in RESERVED_NAMES and not self.built_in:
            raise ToolDefinitionError(
                f"{self.name!r} is a reserved name: {RESERVED_NAMES[self.name]}; choose another with @tool(name=…)"
            )
        if self.effect not in ("read", "idempotent", "write"):
            raise ToolDefinitionError(
                f"the effect of {self.name} is {self.effect!r}; it must be read, idempotent or write"
            )
        if self.approval not in ("", "later"):
            raise ToolDefinitionError(f"the approval of {self.name} is {self.approval!r}; it must be later or left out")
        if self.timeout is not None and not self.timeout > 0:
            raise ToolDefinitionError(f"the timeout of {self.name} is {self.timeout}; it must be more than 0 seconds")
        if self.result_characters is not None and not self.result_characters > 0:
            raise ToolDefinitionError(
                f"result_characters of {self.name} is {self.result_characters}; it must be more than 0"
            )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON Schema of the arguments, as the model sees it."""
        return self.signature.schema.json if self.shown is None else self.shown

    def check(self, arguments: dict[str, Any]) -> None:
        """Validate the arguments. Raises ValidationError."""
        self.signature.bind(self._prepared(arguments))

    def guidance_for(self, agent: Any) -> str:
        """Return the text on the tool for the system prompt of this agent."""
        return self.guidance if isinstance(self.guidance, str) else self.guidance(agent)

    def expect(self, context: ToolContext[Any]) -> None:
        """Learn that a call is about to be decided on. A tool that runs elsewhere prepares it; others do nothing."""

    async def invoke(self, arguments: dict[str, Any], context: ToolContext[Any]) -> ToolResult:
        """Validate the arguments, run the function, and convert its return value to a result."""
        args, kwargs = self.signature.bind(self._prepared(arguments))
        if self.signature.injected:
            kwargs[self.signature.injected] = context
        if self.asynchronous:
            outcome: Any = self.function(*args, **kwargs)
        else:
            outcome = await context.threads.run(_call, self.function, args, kwargs, context)
        if inspect.isawaitable(outcome):
            outcome = await outcome
        if not isinstance(outcome, str) and isinstance(outcome, AsyncIterator):
            outcome = await _consume(outcome, context)
        if isinstance(outcome, str) or not has_pictures(outcome):
            result = as_result(outcome)
        else:  # to encode a picture takes long
            result = await context.threads.run(as_result, outcome)
        if context.attachments:
            result = msgspec.structs.replace(result, attachments=(*result.attachments, *context.attachments))
        return result

    def _prepared(self, arguments: dict[str, Any]) -> Any:
        copied = _copy_arguments(arguments)
        return self.prepare(copied) if self.prepare and isinstance(copied, dict) else copied


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
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
    approval: Literal["", "later"] = "",
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a tool from a function. The model sees the function's name, docstring and annotations.

    `name` and `description` replace those of the function. `effect` says what a call may change: "read" nothing,
    "idempotent" the same thing however often it runs, "write" anything. `timeout` is in seconds. With
    `concurrent=False` a call runs alone. With a `schema`, arguments that satisfy it are passed as keywords, without
    conversion. `guidance` is added to the system prompt of agents that have the tool: a string, or a function that
    returns one for an agent. `final_turn` replaces "give your final answer" on the model's last turn.
    `result_characters` limits how much of a result the model reads, below the agent's own limit. With
    `approval="later"` each call waits until a person allows it with `log.answer`.

    >>> @tool(effect="read")
    ... def add(a: int, b: int = 1) -> int:
    ...     "Add two numbers."
    ...     return a + b
    >>> add.parameters["required"], add(2, 2)
    (['a'], 4)
    """
    namespace = sys._getframe(1).f_locals  # annotations may name types that are local to the caller

    def decorate(function: Callable[..., Any]) -> Tool | ToolMethod:
        if _is_method_in_class_body(function):
            return ToolMethod(function, options)
        return make_tool(function, namespace=namespace, **options)

    return decorate if function is None else decorate(function)


def _is_method_in_class_body(function: Callable[..., Any]) -> bool:
    code = getattr(function, "__code__", None)
    owner = getattr(function, "__qualname__", "").rpartition(".")[0]
    return bool(code and code.co_varnames[:1] == ("self",) and owner and not owner.endswith("<locals>"))


class ToolMethod:
    """A method decorated with `@tool`: each instance has its own tool."""

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
    """Make a tool from a function, or return a tool as it is. `more` sets other fields of `Tool`."""
    if isinstance(function, Tool):
        return function
    if isinstance(function, ToolMethod):
        raise ToolDefinitionError("this tool is a method: take it from an instance, not from the class")
    given: object = function
    if not callable(given):
        advice = f"; pass the function itself, as in tools=[{given}]" if isinstance(given, str) else ""
        raise ToolDefinitionError(f"a tool must be a function or a Tool, not {type(given).__name__}{advice}")
    from outrider.tools.schema import Schema, Signature  # agents without tools do not need them

    if schema is None:
        signature = Signature.of(function, inject=ToolContext, namespace=namespace)
    else:
        is_ours = more.get("built_in", False)
        made = Schema(dict(schema)) if is_ours else Schema.of(schema)  # ours is not checked, which is slow to import
        signature = Signature.with_schema(function, made, inject=ToolContext, namespace=namespace)
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


def check_tool_list(functions: Iterable[Callable[..., Any]]) -> tuple[Callable[..., Any], ...]:
    """Return the functions as a tuple. Raises ToolDefinitionError if they are not a list."""
    given: object = functions
    if isinstance(given, str):
        text = f"tools must be a list of functions, not the name {given!r}; write tools=[{given}]: the function itself"
        raise ToolDefinitionError(text)
    if callable(given) or isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise ToolDefinitionError("tools must be a list of functions; write tools=[…]")
    return tuple(functions)


def make_tools(functions: Iterable[Callable[..., Any]]) -> tuple[Tool, ...]:
    """Make tools from functions. Raises ToolDefinitionError if two have the same name."""
    tools = tuple(map(make_tool, check_tool_list(functions)))
    names: set[str] = set()
    for each in tools:
        if each.name in names:
            raise ToolDefinitionError(f"two tools have the name {each.name!r}; rename one of them with @tool(name=…)")
        names.add(each.name)
    return tools


def _copy_arguments(arguments: dict[str, Any]) -> Any:
    try:
        return _copy(arguments)
    except RecursionError:
        raise ValidationError(["(the value): is nested too deeply"]) from None


def _copy(value: Any) -> Any:
    """Copy dicts and lists, so that a tool that changes its arguments does not change the history."""
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value


def is_async(function: Callable[..., Any]) -> bool:
    """Return whether a call returns an awaitable or an async iterator. A wrapper counts by its own kind."""
    while isinstance(function, functools.partial):
        function = function.func
    candidates = (function, getattr(type(function), "__call__", None))  # noqa: B004 - the method itself is needed
    return any(inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each) for each in candidates)


def _call(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], context: ToolContext[Any]) -> Any:
    """Call a function in its thread. A generator is run to its end there, too."""
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


async def _consume(items: AsyncIterator[Any], context: ToolContext[Any]) -> Any:
    """Send each item as progress. A ToolResult ends the call; otherwise the last item is the result."""
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
