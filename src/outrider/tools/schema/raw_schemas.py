"""JSON Schemas that come from outside: copied, limited in size and depth, and walked where schemas stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from outrider.errors import SchemaError

LARGEST = 1_000_000
"""Bytes of the encoded schema."""
DEEPEST = 100
"""Levels of objects and arrays within each other."""

_NAMES = ("$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor", "$id", "id")
"""Keywords by which schemas are named, or meant by their names. As names of properties they have no text."""
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_SINGLES = (
    *("items", "additionalItems", "unevaluatedItems", "contains", "additionalProperties", "propertyNames"),
    *("unevaluatedProperties", "not", "if", "then", "else", "contentSchema"),
)


def accept(raw: Mapping[str, Any] | bool) -> dict[str, Any]:
    """A copy of the schema in which types are written in lower case. Raises SchemaError if it cannot be used."""
    if isinstance(raw, bool):
        return {} if raw else {"not": {}}
    _refuse_excess(raw)
    try:
        encoded = msgspec.json.encode(raw)
    except (TypeError, ValueError, OverflowError) as error:
        raise SchemaError(f"the schema is not JSON: {error}") from error
    if len(encoded) > LARGEST:
        raise SchemaError(f"the schema is {len(encoded):,} bytes long; at most {LARGEST:,} are allowed")
    copy: dict[str, Any] = _lower_types(msgspec.json.decode(encoded))
    return copy


def refuse_names(schema: Any) -> None:
    """Raise SchemaError if schemas refer to each other by name: what that leads to cannot be told beforehand.

    For schemas of strangers: references by path are counted and followed before anything is checked.
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
    """The schema with each schema directly within it changed; data such as defaults is left alone."""
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


def _refuse_excess(raw: Any) -> None:
    """Stops before anything recursive sees a schema that is too deep, endless or too large."""
    waiting = [(raw, 1)]
    seen = 0
    while waiting:
        value, depth = waiting.pop()
        seen += 1
        if depth > DEEPEST:
            raise SchemaError(f"the schema is nested more than {DEEPEST} levels deep")
        if seen > LARGEST // 2:  # each value takes two bytes at least
            raise SchemaError(f"the schema is too large; at most {LARGEST:,} bytes are allowed")
        if isinstance(value, Mapping):
            waiting += [(each, depth + 1) for each in value.values()]
        elif isinstance(value, list | tuple):
            waiting += [(each, depth + 1) for each in value]


def _lower_types(schema: Any) -> Any:
    """Gemini writes "STRING" where JSON Schema writes "string"."""
    if not isinstance(schema, dict):
        return schema
    lowered = map_subschemas(schema, _lower_types)
    kind = schema.get("type")
    if isinstance(kind, str):
        lowered["type"] = kind.lower()
    elif isinstance(kind, list):
        lowered["type"] = [each.lower() if isinstance(each, str) else each for each in kind]
    return lowered
