"""Samples of the types in the vendors' SDKs: full, with the required fields only, and with nulls."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

FORMS = ("full", "minimal", "nulls")
_PLAIN: dict[Any, Any] = {str: "x", int: 1, float: 1.5, bool: True, bytes: "eA==", NoneType: None}
_DEEPEST = 6


def members(kind: Any) -> list[Any]:
    """The types that a union may be, without its annotations."""
    if get_origin(kind) is Annotated:
        return members(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return [found for each in get_args(kind) for found in members(each)]
    return [kind]


def values(kind: Any) -> set[str]:
    """The values that a field of fixed words may have."""
    return {value for each in members(kind) if get_origin(each) is Literal for value in get_args(each)}


def tag(model: type[BaseModel]) -> str:
    """The type that a member of a union has on the wire."""
    [name] = values(model.model_fields["type"].annotation)
    return name


def sample(kind: Any, form: str, *, camel: bool = False, depth: int = 0) -> Any:
    """A value of a type as JSON has it."""
    kinds = members(kind)
    if form == "nulls" and depth and NoneType in kinds:
        return None
    first = next((each for each in kinds if each is not NoneType), NoneType)
    origin, inner = get_origin(first), get_args(first)
    if origin is Literal:
        return inner[0]
    if origin is list:
        return [sample(inner[0], form, camel=camel, depth=depth + 1)] if depth < _DEEPEST else []
    if isinstance(first, type) and issubclass(first, BaseModel):
        return dict(_fields(first, form, camel, depth)) if depth < _DEEPEST else {}
    if isinstance(first, type) and issubclass(first, enum.Enum):
        return next(iter(first)).value
    return _PLAIN.get(first, {"any": [1]} if form == "full" else {})


def _fields(model: type[BaseModel], form: str, camel: bool, depth: int) -> Iterator[tuple[str, Any]]:
    for name, field in model.model_fields.items():
        if form != "minimal" or field.is_required():
            yield to_camel(name) if camel else name, sample(field.annotation, form, camel=camel, depth=depth + 1)
