"""A system prompt that is a function: it is called once for each run, with the context of the run."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

import msgspec

from outrider.tools.context import AnyDepsT

if TYPE_CHECKING:
    from pathlib import Path


class RunContext(msgspec.Struct, Generic[AnyDepsT], frozen=True):
    """What a system prompt may depend on."""

    deps: AnyDepsT
    """The dependencies of the run."""
    session: str
    """The id of the session."""
    cwd: Path
    """The working directory of the session."""


SystemFunction: TypeAlias = Callable[[RunContext[AnyDepsT]], str | Awaitable[str]]
"""Returns the system prompt of a run; it may be async."""


def check_system(system: Any) -> None:
    """Raise TypeError if this is neither text nor a function of the context."""
    if isinstance(system, str):
        return
    if not callable(system):
        raise TypeError(f"system is text or a function that returns it, not {type(system).__name__}")
    try:
        inspect.signature(system).bind(None)
    except TypeError:
        raise TypeError(
            "a system prompt is a function of the context: def prompt(context: RunContext) -> str"
        ) from None
    except ValueError:  # a built-in without a signature
        return


async def system_text(system: SystemFunction[Any], context: RunContext[Any]) -> str:
    """Return the system prompt of a run. Raises TypeError if the function does not return text."""
    made = system(context)
    text: object = await made if inspect.isawaitable(made) else made
    if not isinstance(text, str):
        raise TypeError(f"the function of the system prompt returned {type(text).__name__}; it must return text")
    return text
