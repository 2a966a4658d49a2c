"""Schemas of servers: harmless ones are kept as they are, others are refused with a reason."""

from __future__ import annotations

from typing import Any

import pytest

from outrider.errors import McpError
from outrider.mcp.schemas import accepted_schema


def with_property(schema: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}, **more}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        with_property({"type": "object", "default": {"id": "x", "$ref": "y"}, "examples": [{"$dynamicRef": "z"}]}),
        with_property({"$ref": "#/$defs/A"}, **{"$defs": {"A": {"type": "string", "enum": ["a", "b"]}}}),
        with_property({"anyOf": [{"type": "string"}, {"type": "null"}], "x-mcp-header": "Region"}),
        {"type": "object", "properties": {"id": {"type": "string"}, "$ref": {"type": "string"}, "title": {}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "additionalProperties": False},
    ],
)
def test_ordinary_schemas_are_kept(schema: dict[str, Any]) -> None:
    assert accepted_schema(schema).json == schema


def test_a_schema_without_a_type_is_one_of_an_object() -> None:
    assert accepted_schema({}).json == {"type": "object"}


def test_names_are_removed_and_texts_are_plain() -> None:
    given = with_property({"$id": "https://example.org/a", "$anchor": "a", "description": "\x1b]0;title\x07b\u200bc"})
    assert accepted_schema(given).json == with_property({"description": "⟨ESC⟩]0;title⟨BEL⟩b⟨U+200B⟩c"})


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (with_property({"$ref": "https://example.org/schema.json"}), "references to other documents are not followed"),
        (with_property({"$ref": "#name"}, **{"$defs": {"A": {"$anchor": "name"}}}), "by name"),
        (with_property({"$dynamicRef": "#n"}, **{"$defs": {"A": {"$dynamicAnchor": "n"}}}), "by name"),
        (with_property({"$ref": "#/$defs/Missing"}), "cannot be used"),
        ({"type": "array"}, "does not describe an object"),
        ({"type": ["object", "null"]}, "does not describe an object"),
        (with_property({"type": "strng"}), "'strng'|\"strng\""),
        (with_property({"pattern": "("}), "cannot be used"),
        (with_property({"description": "x" * 1_100_000}), "at most 1,000,000"),
        (with_property({"description": "x" * 100_000}), "at most 100,000"),
    ],
)
def test_others_are_refused(schema: dict[str, Any], reason: str) -> None:
    with pytest.raises(McpError, match=reason):
        accepted_schema(schema)


def test_references_that_multiply_are_refused() -> None:
    levels = {f"L{n}": {"allOf": [{"$ref": f"#/$defs/L{n + 1}"}] * 2} for n in range(40)}
    with pytest.raises(McpError, match="multiply"):
        accepted_schema(with_property({"$ref": "#/$defs/L0"}, **{"$defs": {**levels, "L40": {"type": "string"}}}))
