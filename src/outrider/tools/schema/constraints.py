"""What `Annotated` says beside a type: a description, bounds, a length, a pattern.

Understood are a plain string (the description), `msgspec.Meta`, and by their attributes the objects of
`annotated_types` and pydantic's `Field`, neither of which is imported.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

_BOUNDS: Mapping[str, tuple[str, str, Callable[[Any, Any], bool]]] = MappingProxyType(
    {
        "ge": ("minimum", "less than", operator.ge),
        "gt": ("exclusiveMinimum", "not more than", operator.gt),
        "le": ("maximum", "more than", operator.le),
        "lt": ("exclusiveMaximum", "not less than", operator.lt),
    }
)
_LENGTHS = MappingProxyType(
    {
        "string": ("minLength", "maxLength"),
        "array": ("minItems", "maxItems"),
        "object": ("minProperties", "maxProperties"),
    }
)
_TEXTS = ("description", "title", "pattern")
_EXTRAS = ("extra_json_schema", "json_schema_extra")


class Constraints(NamedTuple):
    """What the annotations of one type say. Never changed."""

    said: Mapping[str, Any]

    @classmethod
    def of(cls, annotations: Iterable[Any]) -> Constraints:
        said: dict[str, Any] = {}
        for annotation in annotations:
            said.update(_read(annotation))
        return cls(said)

    def describe(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """The schema with the keywords that say the same."""
        described = dict(schema)
        types = _types(schema)
        if types & {"integer", "number"}:
            described |= {_BOUNDS[name][0]: self.said[name] for name in _BOUNDS if _is_number(self.said.get(name))}
            if _is_number(self.said.get("multiple_of")):
                described["multipleOf"] = self.said["multiple_of"]
        for kind in sorted(types & _LENGTHS.keys()):
            described |= self._lengths(kind, encoded="contentEncoding" in schema)
        if "string" in types and "pattern" in self.said:
            described["pattern"] = self.said["pattern"]
        for name in ("title", "description", "examples"):
            if name in self.said:
                described[name] = self.said[name]
        described.update(self.said.get("extra", {}))
        return described

    def _lengths(self, kind: str, encoded: bool) -> dict[str, int]:
        names = zip(_LENGTHS[kind], ("min_length", "max_length"), strict=True)
        found = {keyword: self.said[name] for keyword, name in names if name in self.said}
        # The length is that of the bytes; base64 writes every three of them as four characters.
        return {key: (size + 2) // 3 * 4 for key, size in found.items()} if encoded else found

    def complaint(self, value: Any) -> str | None:
        """How a converted value breaks a bound or a length; None when it does not."""
        for name, (_, words, holds) in _BOUNDS.items():
            if name in self.said and not _holds(holds, value, self.said[name]):
                return f"is {words} {self.said[name]}"
        size = len(value) if hasattr(value, "__len__") else None
        if size is not None and size < self.said.get("min_length", 0):
            return f"is shorter than {self.said['min_length']}"
        if size is not None and size > self.said.get("max_length", size):
            return f"is longer than {self.said['max_length']}"
        return None

    @property
    def bounding(self) -> bool:
        """Whether a value can break them."""
        return not self.said.keys().isdisjoint((*_BOUNDS, "min_length", "max_length"))


def _read(annotation: Any) -> dict[str, Any]:
    if isinstance(annotation, str):
        return {"description": annotation}
    said: dict[str, Any] = {}
    for nested in _nested(annotation):
        said |= _read(nested)
    names = [*_BOUNDS, "multiple_of", "min_length", "max_length", *_TEXTS, "examples"]
    said |= {name: found for name in names if (found := _attribute(annotation, name)) is not None}
    for name in _EXTRAS:
        if isinstance(extra := getattr(annotation, name, None), dict):
            said["extra"] = extra
    return said


def _nested(annotation: Any) -> Iterable[Any]:
    """The metadata that a pydantic `Field` carries in a list."""
    metadata = getattr(annotation, "metadata", None)
    return metadata if isinstance(metadata, list) else ()


def _attribute(annotation: Any, name: str) -> Any:
    """An attribute of that name, if it is what the name promises; anything may stand in `Annotated`."""
    found = getattr(annotation, name, None)
    if name in _TEXTS:
        return found if isinstance(found, str) else None
    if name == "examples":
        return found if isinstance(found, list) else None
    if name in ("min_length", "max_length"):
        return found if isinstance(found, int) else None
    return None if callable(found) else found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _holds(holds: Callable[[Any, Any], bool], value: Any, bound: Any) -> bool:
    try:
        return holds(value, bound)
    except TypeError:  # None beside a number in an optional type, for example
        return True


def _types(schema: Mapping[str, Any]) -> set[str]:
    kind = schema.get("type")
    if isinstance(kind, str):
        return {kind}
    return {found for branch in schema.get("anyOf", ()) for found in _types(branch)}
