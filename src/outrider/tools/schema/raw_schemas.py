"""JSON Schemas from outside: copy them, limit their size and depth, and walk their subschemas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from outrider.errors import SchemaError

MAX_BYTES = 1_000_000
"""The size limit of the encoded schema."""
MAX_DEPTH = 100
"""The nesting limit of objects and arrays."""

_NAMES = ("$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor", "$id", "id")
"""Keywords that name a schema or refer to one by name. A property of this name has a schema, not a string."""
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_SINGLES = (
    *("items", "additionalItems", "unevaluatedItems", "contains", "additionalProperties", "propertyNames"),
    *("unevaluatedProperties", "not", "if", "then", "else", "contentSchema"),
)


def accept(raw: Mapping[str, Any] | bool) -> dict[str, Any]:
    """Return a copy of the schema with types in lower case. Raises SchemaError if it cannot be used."""
    if isinstance(raw, bool):
        return {} if raw else {"not": {}}
    _check_size(raw)
    try:
        encoded = msgspec.json.encode(raw)
    except (TypeError, ValueError, OverflowError) as error:
        raise SchemaError(f"the schema is not JSON: {error}") from error
    if len(encoded) > MAX_BYTES:
        raise SchemaError(f"the schema is {len(encoded):,} bytes long; at most {MAX_BYTES:,} are allowed")
    copy: dict[str, Any] = _lower_types(msgspec.json.decode(encoded))
    return copy


def refuse_names(schema: Any) -> None:
    """Raise SchemaError if schemas refer to each other by name, because such references cannot be counted beforehand.

    For untrusted schemas: references by path are counted before anything is validated.
    """
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
            _refuse_names(value, is_root=value is schema)


def _refuse_names(schema: dict[str, Any], *, is_root: bool) -> None:
    named = [name for name in _NAMES if isinstance(schema.get(name), str) and not (is_root and name == "$id")]
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference != "#" and not reference.startswith("#/"):
        named.append("$ref")
    if named:
        raise SchemaError(f'{named[0]} refers by name; refer by path, as in {{"$ref": "#/$defs/Name"}}')


def map_subschemas(schema: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the schema with `change` applied to each direct subschema; data such as defaults is kept."""
    changed = dict(schema)
    for name, value in schema.items():
        if name in _MAPS and isinstance(value, dict):
            changed[name] = {key: change(each) if _is_schema(each) else each for key, each in value.items()}
        elif name in _LISTS and isinstance(value, list):
            changed[name] = [change(each) for each in value]
        elif name in _SINGLES and _is_schema(value):
            changed[name] = change(value)
    return changed


def _is_schema(value: Any) -> bool:
    return isinstance(value, dict | bool)


def _check_size(raw: Any) -> None:
    """Raise SchemaError for a schema that is too deep, infinite or too large, before anything recursive reads it."""
    waiting = [(raw, 1)]
    seen = 0
    while waiting:
        value, depth = waiting.pop()
        seen += 1
        if depth > MAX_DEPTH:
            raise SchemaError(f"the schema is nested more than {MAX_DEPTH} levels deep")
        if seen > MAX_BYTES // 2:  # each value takes at least two bytes
            raise SchemaError(f"the schema is too large; at most {MAX_BYTES:,} bytes are allowed")
        if isinstance(value, Mapping):
            waiting += [(each, depth + 1) for each in value.values()]
        elif isinstance(value, list | tuple):
            waiting += [(each, depth + 1) for each in value]


def _lower_types(schema: Any) -> Any:
    """Convert types to lower case: Gemini writes "STRING" for "string"."""
    if not isinstance(schema, dict):
        return schema
    lowered = map_subschemas(schema, _lower_types)
    kind = schema.get("type")
    if isinstance(kind, str):
        lowered["type"] = kind.lower()
    elif isinstance(kind, list):
        lowered["type"] = [each.lower() if isinstance(each, str) else each for each in kind]
    return lowered
