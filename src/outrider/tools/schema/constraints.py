"""Constraints in `Annotated`: a description, bounds, a length, a pattern.

Supported are a plain string (the description), `msgspec.Meta`, and, by their attributes, the objects of
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
    """The constraints of one type. Immutable."""

    keywords: Mapping[str, Any]

    @classmethod
    def of(cls, annotations: Iterable[Any]) -> Constraints:
        keywords: dict[str, Any] = {}
        for annotation in annotations:
            keywords.update(_read(annotation))
        return cls(keywords)

    def describe(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return the schema with the keywords of the constraints."""
        described = dict(schema)
        types = _types(schema)
        if types & {"integer", "number"}:
            bounds = {name: self.keywords[name] for name in _BOUNDS if _is_number(self.keywords.get(name))}
            described |= {_BOUNDS[name][0]: bound for name, bound in bounds.items()}
            if _is_number(self.keywords.get("multiple_of")):
                described["multipleOf"] = self.keywords["multiple_of"]
        for kind in sorted(types & _LENGTHS.keys()):
            described |= self._lengths(kind, encoded="contentEncoding" in schema)
        if "string" in types and "pattern" in self.keywords:
            described["pattern"] = self.keywords["pattern"]
        for name in ("title", "description", "examples"):
            if name in self.keywords:
                described[name] = self.keywords[name]
        described.update(self.keywords.get("extra", {}))
        return described

    def _lengths(self, kind: str, encoded: bool) -> dict[str, int]:
        names = zip(_LENGTHS[kind], ("min_length", "max_length"), strict=True)
        found = {keyword: self.keywords[name] for keyword, name in names if name in self.keywords}
        # The length counts bytes; base64 encodes three bytes as four characters.
        return {key: (size + 2) // 3 * 4 for key, size in found.items()} if encoded else found

    def complaint(self, value: Any) -> str | None:
        """Return how a converted value violates a bound or a length, or None."""
        for name, (_, words, holds) in _BOUNDS.items():
            if name in self.keywords and not _holds(holds, value, self.keywords[name]):
                return f"is {words} {self.keywords[name]}"
        size = len(value) if hasattr(value, "__len__") else None
        if size is not None and size < self.keywords.get("min_length", 0):
            return f"is shorter than {self.keywords['min_length']}"
        if size is not None and size > self.keywords.get("max_length", size):
            return f"is longer than {self.keywords['max_length']}"
        return None

    @property
    def bounding(self) -> bool:
        """Whether a value can violate them."""
        return not self.keywords.keys().isdisjoint((*_BOUNDS, "min_length", "max_length"))


def _read(annotation: Any) -> dict[str, Any]:
    if isinstance(annotation, str):
        return {"description": annotation}
    keywords: dict[str, Any] = {}
    for nested in _nested(annotation):
        keywords |= _read(nested)
    names = [*_BOUNDS, "multiple_of", "min_length", "max_length", *_TEXTS, "examples"]
    keywords |= {name: found for name in names if (found := _attribute(annotation, name)) is not None}
    for name in _EXTRAS:
        if isinstance(extra := getattr(annotation, name, None), dict):
            keywords["extra"] = extra
    return keywords


def _nested(annotation: Any) -> Iterable[Any]:
    """Return the metadata of a pydantic `Field`, which is a list."""
    metadata = getattr(annotation, "metadata", None)
    return metadata if isinstance(metadata, list) else ()


def _attribute(annotation: Any, name: str) -> Any:
    """Return an attribute if it has the expected type; `Annotated` may contain any object."""
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
    except TypeError:  # for example None in an optional number
        return True


def _types(schema: Mapping[str, Any]) -> set[str]:
    kind = schema.get("type")
    if isinstance(kind, str):
        return {kind}
    return {found for branch in schema.get("anyOf", ()) for found in _types(branch)}
