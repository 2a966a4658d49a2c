"""Tools as APIs take them: what an API refuses in a schema moves into the description. Arguments are checked anyway."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from outrider.providers.base import ToolSpec
from outrider.tools.schema.raw_schemas import map_subschemas

_COMBINATORS = frozenset({"anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const"})
"""What no API takes at the root."""
_DEFINITIONS = ("$defs", "definitions")
LONGEST_WORDS = 10_000
"""Characters. A longer part of a schema would cost more in each request than it helps: errors name what is wrong."""
_MORE_WORDS = "The arguments must also satisfy this JSON Schema: "


class Rules(msgspec.Struct, frozen=True):
    """What an API wants of the schemas of tools, beside an object without combinators at the root."""

    names: str = ""
    """A pattern for the names of the properties at the root."""
    complete: bool = False
    """Whether the root must have `properties`, and each array `items`."""


ANTHROPIC = Rules(names=r"[a-zA-Z0-9_.-]{1,64}")
OPENAI = Rules(complete=True)
GEMINI = Rules()


def accepted(spec: ToolSpec, rules: Rules) -> ToolSpec:
    """Return a tool with a schema that the API takes.

    >>> spec = ToolSpec("find", "Find orders.", {"type": "object", "anyOf": [{"required": ["id"]}]})
    >>> accepted(spec, OPENAI).parameters
    {'type': 'object', 'properties': {}}
    >>> accepted(spec, OPENAI).description.splitlines()[-1]
    'The arguments must also satisfy this JSON Schema: {"anyOf":[{"required":["id"]}]}'
    """
    schema = {name: value for name, value in spec.parameters.items() if name not in _COMBINATORS}
    moved = {name: value for name, value in spec.parameters.items() if name in _COMBINATORS}
    if rules.names:
        moved |= _take_properties(schema, re.compile(rules.names))
    if rules.complete:
        schema = _with_items(schema if "properties" in schema else {**schema, "properties": {}})
    if schema == spec.parameters:
        return spec
    if moved:
        schema.pop("unevaluatedProperties", None)  # would forbid what only the moved part describes
    text = msgspec.json.encode(moved).decode() if moved else ""
    if '"$ref"' in text:
        definitions = {name: spec.parameters[name] for name in _DEFINITIONS if name in spec.parameters}
        text = msgspec.json.encode({**moved, **definitions}).decode()
    more = f"{_MORE_WORDS}{text}" if 0 < len(text) <= LONGEST_WORDS else ""
    description = "\n\n".join(filter(None, (spec.description, more)))
    return msgspec.structs.replace(spec, description=description, parameters=schema)


def _take_properties(schema: dict[str, Any], names: re.Pattern[str]) -> dict[str, Any]:
    """Take the properties with other names out of a schema, and return the schema of them."""
    properties, required = schema.get("properties") or {}, schema.get("required") or []
    if all(names.fullmatch(name) for name in properties):
        return {}
    taken = {name: value for name, value in properties.items() if not names.fullmatch(name)}
    schema["properties"] = {name: value for name, value in properties.items() if name not in taken}
    schema["required"] = [name for name in required if name not in taken]
    schema.pop("additionalProperties", None)  # would forbid them
    return {"properties": taken, "required": [name for name in required if name in taken]}


def _with_items(schema: Any) -> Any:
    """Return a schema whose arrays all say what their items are: anything, where nothing is said."""
    if not isinstance(schema, dict):
        return schema
    changed = map_subschemas(schema, _with_items)
    kind = changed.get("type")
    if "items" not in changed and (kind == "array" or (isinstance(kind, list) and "array" in kind)):
        changed["items"] = {}
    return changed
