"""Nulls that stand for absent properties."""

from __future__ import annotations

from typing import Any

from outrider.tools.schema.wrapping import without_absent


def test_nulls_are_left_out_in_every_part_of_a_schema() -> None:
    part = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert without_absent({"a": None, "b": 1}, {"allOf": [part]}) == {"b": 1}
    assert without_absent([{"a": None}], {"items": {"$ref": "#/$defs/part"}, "$defs": {"part": part}}) == [{}]


def test_a_value_that_is_nested_without_end_stays_below_that_depth_as_it_is() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"in": {"$ref": "#"}, "a": {"type": "string"}}}
    value: dict[str, Any] = {"a": None}
    for _ in range(200):
        value = {"in": value, "a": None}
    found = without_absent(value, schema)
    assert "a" not in found["in"]["in"]
    while "in" in found:
        found = found["in"]
    assert found == {"a": None}
