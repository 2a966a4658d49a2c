"""Values made from JSON Schemas: whatever the schema, the value satisfies it."""

from __future__ import annotations

import re
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.testing.pattern_texts import texts_matching
from outrider.testing.schema_values import value_for
from tests.lengths import examples

NODE = {
    "type": "object",
    "properties": {
        "next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]},
        "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
    },
    "required": ["next", "children"],
}


def bounds(low: str, high: str, most: int) -> st.SearchStrategy[dict[str, Any]]:
    pairs = st.tuples(st.integers(0, most), st.integers(0, most)).map(sorted)
    both = pairs.map(lambda pair: {low: pair[0], high: pair[1]})
    return both | pairs.map(lambda pair: {low: pair[0]}) | pairs.map(lambda pair: {high: pair[1]})


numbers = st.tuples(
    st.sampled_from(["integer", "number"]),
    st.integers(-100, 100),
    st.integers(0, 50),
    st.sampled_from([{}, {"multipleOf": 1}, {"multipleOf": 3}, {"multipleOf": 7}]),
).map(lambda made: {"type": made[0], "minimum": made[1], "maximum": made[1] + made[2] + 7, **made[3]})
open_numbers = st.tuples(st.integers(-9, 9), st.integers(1, 9)).map(
    lambda made: {"type": "number", "exclusiveMinimum": made[0], "exclusiveMaximum": made[0] + made[1] / 8}
)
patterns = st.sampled_from(
    ["^a+$", r"^\d{3}-\d{4}$", "^[A-Z][a-z]*$", "(x|y)z", r"\w+@\w+\.(com|org)", "^[^a]{2,5}$", r"^(?:\s|b)?c$", "."]
)
strings = (
    st.builds(dict, st.just({"type": "string"}))
    | bounds("minLength", "maxLength", 20).map(lambda more: {"type": "string", **more})
    | patterns.map(lambda pattern: {"type": "string", "pattern": pattern})
    | st.sampled_from(["date", "date-time", "email", "uuid", "ipv4", "uri"]).map(
        lambda known: {"type": "string", "format": known}
    )
)
scalars = (
    strings
    | numbers
    | open_numbers
    | st.sampled_from([True, {}, {"type": "boolean"}, {"type": "null"}, {"type": ["null", "integer"]}])
    | st.lists(st.integers() | st.text(max_size=3), min_size=1, max_size=3).map(lambda values: {"enum": values})
    | st.integers().map(lambda value: {"const": value})
)
NAMES = st.sampled_from("abcdé$")
NEVER: dict[str, Any] = {"type": "string", "minLength": 3, "maxLength": 2}


def compound(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas that have a value if the inner ones have."""
    return (
        st.builds(
            lambda items, more: {"type": "array", "items": items, **more}, inner, bounds("minItems", "maxItems", 4)
        )
        | st.lists(inner, min_size=1, max_size=3).map(lambda items: {"prefixItems": items, "minItems": len(items)})
        | inner.map(lambda each: {"type": "array", "contains": each})
        | st.builds(
            objects, st.dictionaries(st.sampled_from("abcdé$"), inner, max_size=4), st.booleans(), st.booleans()
        )
        | st.tuples(inner, st.booleans()).map(lambda made: {"anyOf": [NEVER, made[0]][:: 1 if made[1] else -1]})
        | inner.map(lambda each: {"allOf": [each, {}, True]})
        | inner.map(lambda each: {"type": "object", "minProperties": 2, "additionalProperties": each})
        | inner.map(lambda each: {"if": each, "then": {}, "else": False})
        | inner.map(lambda each: {"allOf": [each], "not": NEVER})
    )


def objects(properties: dict[str, Any], closed: bool, every: bool) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "object", "properties": properties}
    made["required"] = list(properties)[:: 1 if every else 2]
    return made | ({"additionalProperties": False} if closed else {})


schemas = st.recursive(scalars, compound, max_leaves=8)


@settings(max_examples=examples(400))
@given(schemas, st.booleans())
def test_the_value_of_a_random_schema_satisfies_it(schema: Any, referred: bool) -> None:
    if referred:
        properties = {"here": {"$ref": "#/$defs/there"}}
        schema = {"$defs": {"there": schema}, "type": "object", "properties": properties, "required": ["here"]}
    assert jsonschema_rs.is_valid(schema, value_for(schema), validate_formats=True)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "array", "items": {"enum": [1, 2, 3]}, "minItems": 3, "uniqueItems": True}, [1, 2, 3]),
        ({"$ref": "#/$defs/Node", "$defs": {"Node": NODE}}, {"next": None, "children": []}),
        ({"oneOf": [{"multipleOf": 3}, {"multipleOf": 5}], "type": "integer", "minimum": 15}, 18),
        ({"type": "object", "required": ["a"], "dependentRequired": {"a": ["b"]}}, {"a": "a", "b": "a"}),
        (
            {
                "type": "object",
                "minProperties": 2,
                "patternProperties": {"^x": {"const": 1}},
                "additionalProperties": False,
            },
            {"x": 1, "x0": 1},
        ),
        (
            {
                "type": "object",
                "properties": {"kind": {"enum": ["a", "b"]}, "size": {"type": "integer"}},
                "required": ["kind"],
                "if": {"properties": {"kind": {"const": "a"}}},
                "then": {"required": ["size"]},
            },
            {"kind": "a", "size": 0},
        ),
    ],
)
def test_values_of_schemas_with_conditions(schema: dict[str, Any], value: Any) -> None:
    assert value_for(schema) == value
    assert jsonschema_rs.is_valid(schema, value)


def test_a_schema_without_values_is_an_error() -> None:
    with pytest.raises(LookupError, match="no value was found"):
        value_for({"allOf": [{"type": "string"}, {"type": "integer"}]})


@pytest.mark.parametrize(
    "pattern", ["^ab?c*d+$", "[0-9a-f]{8}", "^(GET|POST) /", "(?i)^x{2,}$", r"^\S\D\W$", "^(?=a)a"]
)
def test_some_text_for_a_pattern_matches_it(pattern: str) -> None:
    assert any(re.search(pattern, text) for text in texts_matching(pattern))


def test_a_pattern_that_python_cannot_read_has_no_texts() -> None:
    assert list(texts_matching("(?<")) == []
