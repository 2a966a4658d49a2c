"""Arguments that a tool's schema marks become headers; other marks make the tool unusable."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from outrider.errors import McpError
from outrider.mcp.parameter_headers import header_parameters, header_value, parameter_headers, standard_headers


def marked(mark: Any, type: Any = "string") -> dict[str, Any]:
    return {"type": type, "x-mcp-header": mark}


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def test_marked_arguments_become_headers_at_any_depth() -> None:
    inner = schema(zone=marked("Zone"), count=marked("Count", "integer"), dry=marked("Dry-Run", "boolean"))
    parameters = header_parameters(schema(where=inner, text={"type": "string"}))
    arguments = {"where": {"zone": "Zürich", "count": -7, "dry": True}, "text": "body"}
    assert parameter_headers(parameters, arguments) == {
        "mcp-param-zone": "=?base64?WsO8cmljaA==?=",
        "mcp-param-count": "-7",
        "mcp-param-dry-run": "true",
    }
    for absent in ({}, {"where": None}, {"where": {"zone": None, "count": 2**60}}, {"where": "text"}):
        assert parameter_headers(parameters, absent) == {}


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (schema(a=marked("")), "is not the name of a header"),
        (schema(a=marked("Two Words")), "is not the name of a header"),
        (schema(a=marked("X\r\nY: z")), "is not the name of a header"),
        (schema(a=marked(3)), "is not the name of a header"),
        (schema(a=marked("A", "number")), "not a string, an integer or a boolean"),
        (schema(a=marked("A", ["string", "null"])), "not a string, an integer or a boolean"),
        (schema(a=marked("A"), b=marked("a")), "twice"),
        (schema(a={"type": "array", "items": marked("A")}), "where no argument can be found"),
        (marked("A", "object"), "where no argument can be found"),
        ({"$defs": {"x": marked("A")}}, "where no argument can be found"),
    ],
)
def test_invalid_marks_are_refused(bad: dict[str, Any], told: str) -> None:
    with pytest.raises(McpError, match=told):
        header_parameters(bad)


def test_marks_inside_of_data_are_not_marks() -> None:
    assert header_parameters(schema(a={"type": "object", "default": marked("A"), "examples": [marked("B")]})) == ()


def test_deep_schemas_do_not_overflow() -> None:
    deep: dict[str, Any] = {}
    for _ in range(10_000):
        deep = {"items": deep}
    with pytest.raises(McpError, match="nested too deeply"):
        header_parameters(deep)


@given(st.text())
@example("=?base64?")
@example("=?base64?AAAA?=")
def test_values_are_safe_and_can_be_read_back(text: str) -> None:
    value = header_value(text)
    assert value.isascii()
    assert value == value.strip()
    assert value.isprintable()
    if value.startswith("=?base64?"):
        text = text.encode("utf-8", "replace").decode()
        assert base64.b64decode(value[9:-2]).decode() == text
    else:
        assert value == text


def test_names_of_tools_prompts_and_resources_are_repeated() -> None:
    assert standard_headers("resources/read", {"uri": "file:///ä"})["mcp-name"].startswith("=?base64?")
    assert standard_headers("prompts/get", {"name": "p"}) == {"mcp-method": "prompts/get", "mcp-name": "p"}
    assert standard_headers("tools/list", {"name": "x"}) == {"mcp-method": "tools/list"}
