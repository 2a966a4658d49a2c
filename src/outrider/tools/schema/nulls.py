"""Nulls that stand for absent properties: an API that requires every property makes a model write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from outrider.tools.schema.references import target_of
from outrider.tools.schema.schema import Schema

_MAX_DEPTH = 100
_MOST_VALUES = 20_000
"""Values that are looked at. A hostile schema could make every branch try every other one."""


def without_absent(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return the value without the nulls of optional properties that may not be null.

    >>> without_absent({"a": None}, {"type": "object", "properties": {"a": {"type": "string"}}})
    {}
    """
    return _Reader(schema).read(value, schema, 0)


class _Reader:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._count = 0
        self._definitions = {name: root[name] for name in ("$defs", "definitions") if name in root}

    def read(self, value: Any, schema: Any, depth: int) -> Any:
        """Return the value as the schema describes it."""
        self._count += 1
        if depth > _MAX_DEPTH or self._count > _MOST_VALUES:
            return value
        if not isinstance(schema, Mapping) or not isinstance(value, dict | list):
            return value
        if isinstance(reference := schema.get("$ref"), str):
            value = self.read(value, target_of(self._root, reference), depth + 1)
        for branch in schema.get("allOf") or ():
            value = self.read(value, branch, depth + 1)
        for name in ("anyOf", "oneOf"):
            value = self._branch(value, schema.get(name) or (), depth)
        if isinstance(value, list):
            return [self.read(each, schema.get("items"), depth + 1) for each in value]
        return self._object(value, schema, depth)

    def _object(self, value: dict[str, Any], schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties")
        if not isinstance(properties, Mapping):
            return value
        required = schema.get("required") or ()
        return {
            name: self.read(each, properties.get(name), depth + 1)
            for name, each in value.items()
            if each is not None or name not in properties or name in required or self._is_valid(None, properties[name])
        }

    def _branch(self, value: Any, branches: Any, depth: int) -> Any:
        """Return the value as the first branch describes it that allows it."""
        for branch in branches:
            read = self.read(value, branch, depth + 1)
            if self._is_valid(read, branch):
                return read
        return value

    def _is_valid(self, value: Any, schema: Any) -> bool:
        return not Schema({**self._definitions, **schema} if isinstance(schema, Mapping) else {}).violations(value)
