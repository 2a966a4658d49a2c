"""Schemas of answers as parameters of a tool: wrapped in an object, and nulls that mean absent properties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from outrider.tools.schema.raw_schemas import map_subschemas, target_of
from outrider.tools.schema.schema import Schema

_DEFINITIONS = ("$defs", "definitions")
_BESIDE_A_REFERENCE = frozenset({"$ref", "$schema", "$id", "$comment", "title", "description", *_DEFINITIONS})
_NON_OBJECT_KEYWORDS = (
    *("$ref", "$dynamicRef", "$recursiveRef", "anyOf", "oneOf", "allOf", "not", "if", "enum", "const"),
    *("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains", "minItems", "maxItems", "uniqueItems"),
    *("minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType", "contentSchema"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
)
"""Keywords for values other than objects: a schema without a type that has one may describe any value."""


def resolve_root_reference(schema: dict[str, Any]) -> dict[str, Any]:
    """Replace a root that is only a reference by its target, because APIs expect an object there."""
    if isinstance(schema.get("$ref"), str) and schema.keys() <= _BESIDE_A_REFERENCE:
        target = target_of(schema, schema["$ref"])
        if isinstance(target, dict) and "$ref" not in target and "$id" not in target:
            return {name: value for name, value in schema.items() if name != "$ref"} | target
    return schema


def describes_objects(schema: Mapping[str, Any]) -> bool:
    """Return whether the data are objects, so that the schema can be used as parameters. `{}` counts as objects.

    >>> describes_objects({}), describes_objects({"enum": [1, 2]})
    (True, False)
    """
    kind = schema.get("type")
    if kind is not None:
        return bool(kind == "object")
    return "properties" in schema or not any(name in schema for name in _NON_OBJECT_KEYWORDS)


def wrapped(schema: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the schema of an object with this schema as its only property. References are adjusted.

    >>> wrapped({"type": "array", "items": {"$ref": "#"}}, "result")["properties"]
    {'result': {'type': 'array', 'items': {'$ref': '#/properties/result'}}}
    """
    mover = _Mover(name, schema.get("$id") or "")
    moved = mover.moved({key: value for key, value in schema.items() if key != "$id"})
    hoisted = {key: moved.pop(key) for key in (*_DEFINITIONS, "$schema") if key in moved}
    return {"type": "object", "properties": {name: moved}, "required": [name], "additionalProperties": False} | hoisted


class _Mover:
    """Moves a schema below a property; its definitions stay at the root."""

    def __init__(self, name: str, schema_id: str) -> None:
        self._pointer = f"#/properties/{name}"
        self._schema_id = schema_id.removesuffix("#")
        """The schema's `$id`: references may begin with it."""

    def moved(self, schema: Any) -> Any:
        """Return the schema with its references rewritten. A subschema with its own `$id` is not changed."""
        if not isinstance(schema, dict) or "$id" in schema:
            return schema
        moved = map_subschemas(schema, self.moved)
        if moved.get("$recursiveRef") == "#" and "$ref" not in moved:
            moved["$ref"] = moved.pop("$recursiveRef")
        if isinstance(reference := moved.get("$ref"), str):
            moved["$ref"] = self._rewritten(reference.removeprefix(self._schema_id))
        return moved

    def _rewritten(self, reference: str) -> str:
        if reference in ("", "#"):
            return self._pointer
        stays = not reference.startswith("#/") or reference.startswith(tuple(f"#/{key}/" for key in _DEFINITIONS))
        return reference if stays else self._pointer + reference[1:]


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
