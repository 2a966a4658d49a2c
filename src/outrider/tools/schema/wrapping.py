"""Wrap a schema of any data as the parameters of a tool, which are always an object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from outrider.tools.schema.raw_schemas import map_subschemas
from outrider.tools.schema.references import target_of

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
