"""The dependencies of an agent's tools: whether they are of the type that the agent names."""

from __future__ import annotations

from collections.abc import Iterable
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from outrider.tools.tool import Tool


def check_deps_type(deps_type: Any) -> None:
    """Raise TypeError for deps in the place of their type."""
    is_type = isinstance(deps_type, type) or type(deps_type).__module__ in ("typing", "types", "typing_extensions")
    if deps_type is not None and not is_type:
        name = _name(type(deps_type))
        raise TypeError(f"deps_type is a type, as in deps_type={name}; the run or its session gets deps={name}(…)")


def check_deps(deps_type: Any, deps: Any) -> None:
    """Raise TypeError if deps are missing, of another type, or given to an agent that has none."""
    if deps_type is None:
        if deps is not None:
            raise TypeError(f"the agent takes no deps; write Agent(…, deps_type={type(deps).__name__})")
        return
    name = _name(deps_type)
    if not fits(deps_type, deps):
        if deps is None:
            raise TypeError(f"the agent needs deps; pass deps={name}(…) to the run or to the session")
        raise TypeError(f"deps is {_name(type(deps))}, and the agent needs {name} (its deps_type)")


def fits(deps_type: Any, deps: Any) -> bool:
    """Return whether deps are of the type. One that cannot be checked at run time, such as a Protocol, takes all."""
    if get_origin(deps_type) in (Union, UnionType):
        return any(fits(each, deps) for each in get_args(deps_type))
    try:
        return isinstance(deps, get_origin(deps_type) or deps_type)
    except TypeError:
        return deps is not None


def check_tool_deps(deps_type: Any, tools: Iterable[Tool]) -> None:
    """Raise TypeError if a tool declares a `ToolContext[Deps]` of other deps than the agent's."""
    for tool in tools:
        wanted = tool.signature.deps
        if wanted is None or wanted is Any or isinstance(wanted, TypeVar) or is_subtype(deps_type, wanted):
            continue
        takes, name = f"the tool {tool.name} takes ToolContext[{_name(wanted)}]", _name(wanted)
        if deps_type is None:
            raise TypeError(f"{takes}, and the agent has no deps_type; write Agent(…, deps_type={name})")
        raise TypeError(f"{takes}, and the deps_type of the agent is {_name(deps_type)}")


def is_subtype(deps_type: Any, wanted: Any) -> bool:
    """Return whether deps of one type are of the other. What only type checkers know counts as so."""
    if deps_type is None:
        return False
    if get_origin(deps_type) in (Union, UnionType) or get_origin(wanted) in (Union, UnionType):
        return True  # type checkers know
    try:
        return issubclass(get_origin(deps_type) or deps_type, get_origin(wanted) or wanted)
    except TypeError:  # such as a Protocol that is not for run time
        return True


def _name(type_: Any) -> str:
    return type_.__name__ if isinstance(type_, type) and get_origin(type_) is None else str(type_)
