"""Forms of servers, and the words that people write into them."""

from __future__ import annotations

from typing import Any

import pytest

from outrider.coding.mcp.forms import MOST_FIELDS, Field, Option, fields_of

SCHEMA: dict[str, Any] = {
    "properties": {
        "name": {"type": "string", "title": "Your name", "description": "As on the card"},
        "age": {"type": "integer", "default": 7},
        "size": {"type": "number"},
        "ok": {"type": "boolean"},
        "colour": {"enum": ["r", "b"], "enumNames": ["red", "blue"]},
        "shape": {"oneOf": [{"const": 1, "title": "round"}, {"const": 2}]},
        "many": {"type": "array", "items": {"enum": ["x", "y", "z"]}},
        "strange": 3,
    },
    "required": ["name", "size", "colour"],
}


def test_a_schema_becomes_fields() -> None:
    fields = {field.name: field for field in fields_of(SCHEMA)}
    assert {name: field.kind for name, field in fields.items()} == {
        "name": "text",
        "age": "integer",
        "size": "number",
        "ok": "boolean",
        "colour": "choice",
        "shape": "choice",
        "many": "choices",
    }
    assert fields["name"] == Field("name", "Your name", "text", True, "As on the card")
    assert fields["colour"].options == (Option("r", "red"), Option("b", "blue"))
    assert fields["shape"].options == (Option(1, "round"), Option(2, "2"))
    assert [name for name, field in fields.items() if field.is_required] == ["name", "size", "colour"]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("name", "  Ada ", "Ada"),
        ("name", "", ""),
        ("age", "", 7),
        ("age", "42", 42),
        ("size", "1.5", 1.5),
        ("ok", "Yes", True),
        ("ok", "n", False),
        ("ok", "", None),
        ("colour", "2", "b"),
        ("colour", "blue", "b"),
        ("shape", "1", 1),
        ("many", "1, z", ["x", "z"]),
        ("many", "", None),
    ],
)
def test_words_become_values(name: str, text: str, value: Any) -> None:
    field = next(field for field in fields_of(SCHEMA) if field.name == name)
    assert field.parse(text) == value


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("age", "old", "Write a whole number."),
        ("age", "1.5", "Write a whole number."),
        ("size", "", "A value is needed: a number."),
        ("size", "big", "Write a number."),
        ("ok", "maybe", "Write y or n."),
        ("colour", "3", "Write a number from 1 to 2."),
        ("colour", "0", "Write a number from 1 to 2."),
        ("many", "1,9", "Write a number from 1 to 3."),
    ],
)
def test_wrong_words_are_a_sentence(name: str, text: str, said: str) -> None:
    field = next(field for field in fields_of(SCHEMA) if field.name == name)
    with pytest.raises(ValueError, match="^" + said.replace(".", r"\.") + "$"):
        field.parse(text)


@pytest.mark.parametrize("schema", [{}, {"properties": 3}, {"properties": {"a": None}}, {"required": 1}])
def test_a_schema_without_fields_has_none(schema: dict[str, Any]) -> None:
    assert fields_of(schema) == []


def test_the_number_and_the_words_of_fields_are_bounded() -> None:
    many = {"properties": {f"f{number}": {"title": "\x1b[31m" + "x" * 500} for number in range(1_000)}}
    fields = fields_of(many)
    assert len(fields) == MOST_FIELDS
    assert all(len(field.label) <= 80 and "\x1b" not in field.label for field in fields)
