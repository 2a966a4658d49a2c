"""The `@tool` decorator."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar, overload

from outrider.tools.tool import Effect, Guidance, Tool, ToolMethod, make_tool

P = ParamSpec("P")
R = TypeVar("R")


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
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a tool from a function. The model sees the function's name, docstring and annotations.

    `name` and `description` replace those of the function. `effect` says what a call may change: "read" nothing,
    "idempotent" the same thing however often it runs, "write" anything. `timeout` is in seconds. With
    `concurrent=False` a call runs alone. With a `schema`, arguments that satisfy it are passed as keywords, without
    conversion. `guidance` is added to the system prompt of agents that have the tool: a string, or a function that
    returns one for an agent. `final_turn` replaces "give your final answer" on the model's last turn.
    `result_characters` limits how much of a result the model reads, below the agent's own limit.

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
