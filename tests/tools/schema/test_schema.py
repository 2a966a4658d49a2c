"""Raw schemas, descriptions of violations, and inlined references."""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.errors import SchemaError, ValidationError
from outrider.tools.schema import Schema, inline_references
from tests.lengths import examples

FILES = {
    "type": "object",
    "properties": {
        "files": {"type": "array", "items": {"type": "object", "properties": {"size": {"type": "integer"}}}},
        "odd name": {"type": "string"},
        "mode": {"enum": ["r", "w"]},
    },
    "required": ["mode"],
}


def test_every_violation_names_its_place() -> None:
    found = Schema.of(FILES).violations({"files": [{}, {}, {"size": "x"}], "odd name": 1})
    assert sorted(found) == [
        '(the value): "mode" is a required property',
        '["odd name"]: 1 is not of type "string"',
        'files[2].size: "x" is not of type "integer"',
    ]


def test_decode_raises_with_all_of_them() -> None:
    with pytest.raises(ValidationError) as caught:
        Schema.of(FILES).decode({"files": 1, "mode": "x"})
    assert len(caught.value.violations) == 2


def test_a_raw_schema_returns_the_value_itself() -> None:
    value = {"mode": "r", "more": [1.0]}
    assert Schema.of(FILES).decode(value) is value


def test_a_raw_schema_is_copied() -> None:
    raw = copy.deepcopy(FILES)
    schema = Schema.of(raw)
    raw["type"] = "array"
    assert schema.json == FILES


def test_a_schema_cannot_be_changed_and_is_its_own_schema() -> None:
    schema = Schema.of(int)
    assert Schema.of(schema) is schema
    with pytest.raises(AttributeError):
        schema.json = {}  # type: ignore[misc]


def test_changing_what_was_given_out_changes_no_other_schema() -> None:
    Schema.of(str).json["type"] = "integer"
    assert Schema.of(str).json == {"type": "string"}


def test_true_takes_anything_and_false_nothing() -> None:
    assert Schema.of(True).violations("x") == []
    assert Schema.of(False).violations("x") != []


def test_long_values_are_abbreviated() -> None:
    [found] = Schema.of(int).violations("x" * 10_000)
    assert len(found) < 300
    assert found.endswith('… is not of type "integer"')


def test_many_violations_are_counted() -> None:
    found = Schema.of(list[int]).violations(["x"] * 62)
    assert len(found) == 51
    assert found[-1] == "and 12 more"


def test_the_alternative_that_was_meant_explains_itself() -> None:
    raw = {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"size": {"type": "integer"}}}]}
    assert Schema.of(raw).violations({"size": "x"}) == ['size: "x" is not of type "integer"']
    [found] = Schema.of(raw).violations(5)
    assert found.startswith("(the value): 5 matches none of the alternatives (")
    assert '"null"' in found
    assert '"object"' in found


def test_types_in_upper_case_are_lowered_where_they_are_types() -> None:
    raw = {
        "type": "OBJECT",
        "properties": {"type": {"type": ["STRING", "null"], "enum": ["STRING", None]}, "a": {"type": "ARRAY"}},
        "default": {"type": "OBJECT"},
    }
    assert Schema.of(raw).json == {
        "type": "object",
        "properties": {"type": {"type": ["string", "null"], "enum": ["STRING", None]}, "a": {"type": "array"}},
        "default": {"type": "OBJECT"},
    }


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_json_has_no_number_for_is_refused(value: float) -> None:
    assert Schema.of({"type": "number"}).violations(value)
    assert Schema.of(float).violations(value)


@pytest.mark.parametrize("value", [{1: 2}, {"a": "\ud800"}, {"\ud800": 1}])
def test_a_value_that_is_not_json_is_a_violation(value: Any) -> None:
    schema = Schema.of({"type": "object", "additionalProperties": {"type": "integer"}})
    assert schema.violations(value)


def test_importing_does_not_import_the_validator() -> None:
    code = "import outrider.tools.schema, sys; sys.exit('jsonschema_rs' in sys.modules or 'pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_references_are_written_out() -> None:
    raw = {
        "properties": {"a": {"$ref": "#/$defs/A", "description": "Own."}, "$ref": {"type": "string"}},
        "$defs": {"A": {"type": "array", "items": {"$ref": "#/$defs/B~1C"}, "description": "A."}, "B/C": {"const": 1}},
    }
    before = copy.deepcopy(raw)
    assert inline_references(raw) == {
        "properties": {
            "a": {"type": "array", "items": {"const": 1}, "description": "Own."},
            "$ref": {"type": "string"},
        }
    }
    assert raw == before


@pytest.mark.parametrize(
    ("target", "beside", "expected"),
    [
        (True, {}, {}),
        (True, {"minimum": 1}, {"minimum": 1}),
        (False, {"minimum": 1}, {"not": {}}),
        ({"const": 1}, {}, {"const": 1}),
    ],
)
def test_a_reference_may_be_quoted_and_lead_to_a_boolean(
    target: Any, beside: dict[str, Any], expected: dict[str, Any]
) -> None:
    raw = {"items": {"$ref": "#/$defs/a%20b", **beside}, "$defs": {"a b": target}}
    assert inline_references(raw) == {"items": expected}


def test_a_recursive_reference_is_cut_off() -> None:
    node = {"type": "object", "description": "N.", "properties": {"next": {"$ref": "#/$defs/N"}}}
    found: Any = inline_references({"$ref": "#/$defs/N", "$defs": {"N": node}})
    depth = 0
    while "properties" in found:
        found, depth = found["properties"]["next"], depth + 1
    assert depth == 2
    assert found == {"type": "object", "description": "N."}


def test_what_stands_beside_a_reference_still_counts() -> None:
    raw = {"$ref": "#/$defs/A", "minimum": 5, "$defs": {"A": {"minimum": 3, "maximum": 8}}}
    inlined = Schema.of(inline_references(raw))
    assert [bool(inlined.violations(number)) for number in (4, 5, 8, 9)] == [True, False, False, True]


LEAVES = st.sampled_from([{}, True, False, {"type": "integer"}, {"type": "string"}, {"minimum": 2}, {"enum": [1, "a"]}])


def _schemas(names: list[str]) -> st.SearchStrategy[Any]:
    references = st.sampled_from(names).map(lambda name: {"$ref": f"#/$defs/{name}"}) if names else LEAVES
    return st.recursive(
        LEAVES | references,
        lambda inner: st.one_of(
            st.builds(lambda item: {"type": "array", "items": item}, inner),
            st.builds(lambda a, b: {"anyOf": [a, b]}, inner, inner),
            st.builds(lambda a: {"properties": {"p": a}, "description": "d"}, inner),
            st.builds(lambda a: {"additionalProperties": a, "required": ["p"]}, inner),
        ),
        max_leaves=4,
    )


@st.composite
def _documents(draw: st.DrawFn) -> dict[str, Any]:
    definitions = {"C": draw(_schemas([]))}
    definitions["B"] = draw(_schemas(["C"]))
    definitions["A"] = draw(_schemas(["B", "C"]))
    return {"allOf": [draw(_schemas(["A", "B", "C"]))], "$defs": definitions}


VALUES = st.recursive(
    st.sampled_from([1, 2, "a", "b", None, 2.5]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("pq"), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=examples(100))
@given(_documents(), VALUES)
def test_written_out_it_means_the_same(document: dict[str, Any], value: Any) -> None:
    inlined = inline_references(document)
    assert "$ref" not in str(inlined)
    assert "$defs" not in inlined
    assert inline_references(inlined) == inlined
    assert jsonschema_rs.is_valid(inlined, value) == jsonschema_rs.is_valid(document, value)
    assert bool(Schema.of(document).violations(value)) != jsonschema_rs.is_valid(document, value)


@pytest.mark.parametrize("raw", [{"type": "strin"}, {"required": 1}, {"pattern": "("}, {"$ref": "#/$defs/No"}])
def test_an_invalid_schema_is_refused(raw: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match="cannot be used"):
        Schema.of(raw)
