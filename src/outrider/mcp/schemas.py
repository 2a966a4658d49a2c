"""JSON Schemas of servers: limited, without references to other documents, with harmless descriptions."""

from __future__ import annotations

from typing import Any

import msgspec

from outrider.errors import McpError, SchemaError
from outrider.text.visible import plain_text
from outrider.tools.schema import Schema
from outrider.tools.schema.raw_schemas import map_subschemas

MAX_BYTES = 100_000
_LONGEST_DESCRIPTION = 2_000
_BY_NAME = ("$dynamicRef", "$recursiveRef")
_NAMES = ("$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor")


def accepted_schema(raw: dict[str, Any]) -> Schema:
    """Return the schema of an object. Raises McpError with the reason if it cannot be used."""
    try:
        found = Schema.of({**raw, "type": "object"} if raw.get("type", "object") in ("object", "OBJECT") else raw)
        if (size := len(msgspec.json.encode(found.json))) > MAX_BYTES:
            raise McpError(f"its schema is {size:,} bytes long; at most {MAX_BYTES:,} are allowed")
        if found.json.get("type") != "object":
            raise McpError("its schema does not describe an object")
        return Schema.of(_plain(found.json))
    except SchemaError as error:
        raise McpError(f"its schema cannot be used: {error}") from None


def _plain(schema: Any) -> Any:
    """Return the schema with harmless texts, and without references by name, which could multiply unseen."""
    if not isinstance(schema, dict):
        return schema
    reference = schema.get("$ref", "#")
    is_named = isinstance(reference, str) and reference != "#" and not reference.startswith("#/")
    if is_named or any(name in schema for name in _BY_NAME):
        raise SchemaError('it refers to a schema by name; refer by path, as in {"$ref": "#/$defs/Name"}')
    changed = {name: value for name, value in map_subschemas(schema, _plain).items() if name not in _NAMES}
    for name in ("title", "description", "$comment"):
        if isinstance(text := changed.get(name), str):
            changed[name] = plain_text(text, _LONGEST_DESCRIPTION)
    return changed
