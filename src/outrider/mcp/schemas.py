"""JSON Schemas of servers: limited, without references to other documents, with harmless descriptions."""

from __future__ import annotations

from typing import Any

from outrider.errors import McpError, SchemaError
from outrider.mcp.wording import plain_text
from outrider.tools.schema import Schema
from outrider.tools.schema.raw_schemas import map_subschemas, refuse_names

MAX_BYTES = 100_000
_LONGEST_DESCRIPTION = 2_000


def accepted_schema(raw: dict[str, Any]) -> Schema:
    """Return the schema of an object. Raises McpError with the reason if it cannot be used."""
    try:
        found = Schema.of({**raw, "type": "object"} if raw.get("type", "object") in ("object", "OBJECT") else raw)
        if found.json.get("type") != "object":
            raise McpError("its schema does not describe an object")
        refuse_names(found.json)
        return Schema.of(_plain(found.json))
    except SchemaError as error:
        raise McpError(f"its schema cannot be used: {error}") from None


def _plain(schema: Any) -> Any:
    """Return the schema with titles and descriptions made harmless."""
    if not isinstance(schema, dict):
        return schema
    changed = map_subschemas(schema, _plain)
    for name in ("title", "description", "$comment"):
        if isinstance(text := changed.get(name), str):
            changed[name] = plain_text(text, _LONGEST_DESCRIPTION)
    return changed
