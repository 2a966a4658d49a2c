"""Schemas of tools on the wire: each API gets what it takes, and the model learns the rest from the description."""

from __future__ import annotations

import re
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.conversation.messages import Message
from outrider.conversation.store import MemoryStore
from outrider.providers.api import ApiProvider
from outrider.providers.base import Request, ToolSpec
from outrider.providers.rendering.tool_schemas import ANTHROPIC, GEMINI, OPENAI, Rules, accepted
from outrider.providers.resolution import resolve
from outrider.runtime.structured_output import Report
from tests.oracles import type_errors

TEXT = {"type": "string"}
ONE_OF_TWO = {"oneOf": [{"required": ["id"]}, {"required": ["name"]}]}
WORDS = "The arguments must also satisfy this JSON Schema: "
COMBINATORS = {"anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const"}


def moved(spec: ToolSpec) -> dict[str, Any]:
    """What the description says of the arguments."""
    _, found, schema = spec.description.partition(WORDS)
    return msgspec.json.decode(schema) if found else {}


def sent(name: str, spec: ToolSpec) -> tuple[str, dict[str, Any]]:
    """The description and the schema of a tool in the body of a request."""
    model = resolve(name)
    assert isinstance(model, ApiProvider)
    body = msgspec.json.decode(model.render(Request([Message.user("Who?")], MemoryStore(), tools=[spec])))
    assert not type_errors(model.prefix, body)
    (tool,) = body["tools"]
    tool = tool.get("function", tool)
    tool = tool["functionDeclarations"][0] if "functionDeclarations" in tool else tool
    return tool["description"], next(
        tool[key] for key in ("input_schema", "parameters", "parametersJsonSchema") if key in tool
    )


@pytest.mark.parametrize("name", ["anthropic/fast", "openai/fast", "openai-chat/gpt-5.1", "gemini/fast"])
def test_what_no_api_takes_at_the_root_is_said_in_words(name: str) -> None:
    schema = {"type": "object", "properties": {"id": TEXT, "name": TEXT}, **ONE_OF_TWO}
    description, parameters = sent(name, ToolSpec("find", "Find a person.", schema))
    assert parameters == {"type": "object", "properties": {"id": TEXT, "name": TEXT}}
    assert description.startswith("Find a person.\n\n")
    assert msgspec.json.decode(description.partition(WORDS)[2]) == ONE_OF_TWO


@pytest.mark.parametrize("name", ["openai/fast", "openai-chat/gpt-5.1"])
def test_openai_gets_properties_and_items(name: str) -> None:
    assert sent(name, ToolSpec("now", "Tell the time.", {"type": "object"}))[1] == {"type": "object", "properties": {}}
    arrays = {
        "pair": {"prefixItems": [TEXT, TEXT], "type": "array"},
        "more": {"type": ["array", "null"]},
        "rows": {"type": "array", "items": {"type": "array"}},
    }
    _, parameters = sent(name, ToolSpec("add", "Add.", {"type": "object", "properties": arrays}))
    assert [each["items"] for each in parameters["properties"].values()] == [{}, {}, {"type": "array", "items": {}}]


def test_anthropic_learns_of_properties_whose_names_it_refuses_from_the_description() -> None:
    properties = {"page": {"type": "integer"}, "filter[id]": TEXT, "$top": TEXT, "x" * 65: TEXT}
    schema = {"type": "object", "properties": properties, "required": ["page", "$top"], "additionalProperties": False}
    description, parameters = sent("anthropic/fast", ToolSpec("list", "List orders.", schema))
    assert parameters == {"type": "object", "properties": {"page": {"type": "integer"}}, "required": ["page"]}
    said = msgspec.json.decode(description.partition(WORDS)[2])
    assert list(said["properties"]) == ["filter[id]", "$top", "x" * 65]
    assert said["required"] == ["$top"]
    assert sent("openai/fast", ToolSpec("list", "List orders.", schema))[1] == schema


def test_a_report_of_alternatives_is_shown_to_the_model() -> None:
    kinds = [{"properties": {"city": TEXT}, "required": ["city"]}, {"properties": {"town": TEXT}, "required": ["town"]}]
    tool = Report({"type": "object", "oneOf": kinds}).tool
    description, _ = sent("openai/fast", ToolSpec(tool.name, tool.description, tool.parameters))
    assert msgspec.json.decode(description.partition(WORDS)[2]) == {"oneOf": kinds}


def test_a_schema_that_the_api_takes_is_sent_as_it_is() -> None:
    spec = ToolSpec(
        "look", "Look.", {"type": "object", "properties": {"path": TEXT, "rows": {"type": "array", "items": TEXT}}}
    )
    assert all(accepted(spec, rules) is spec for rules in (ANTHROPIC, OPENAI, GEMINI))


NAMES = st.sampled_from(["id", "name", "filter[id]", "$top", "标题"])
VALUES = st.one_of(st.none(), st.text(max_size=2), st.integers(0, 3), st.lists(st.integers(0, 1), max_size=2))
SCHEMAS = st.sampled_from(
    [
        TEXT,
        {"type": "integer"},
        {"type": "array"},
        {"type": ["array", "null"]},
        {},
        {"type": "array", "prefixItems": [TEXT]},
    ]
)


@st.composite
def specs(draw: st.DrawFn) -> ToolSpec:
    schema: dict[str, Any] = {"type": "object"}
    if draw(st.booleans()):
        schema["properties"] = draw(st.dictionaries(NAMES, SCHEMAS))
        schema["required"] = draw(st.lists(NAMES, unique=True, max_size=2))
    if draw(st.booleans()):
        schema["additionalProperties"] = False
    if draw(st.booleans()):
        schema["anyOf"] = [{"required": [draw(NAMES)]}, {"minProperties": draw(st.integers(0, 2))}]
    return ToolSpec("look", draw(st.sampled_from(["", "Look."])), schema)


@given(specs(), st.sampled_from([ANTHROPIC, OPENAI, GEMINI]), st.dictionaries(NAMES, VALUES))
def test_nothing_that_is_allowed_is_forbidden_by_the_change(
    spec: ToolSpec, rules: Rules, value: dict[str, Any]
) -> None:
    taken = accepted(spec, rules)
    assert not taken.parameters.keys() & COMBINATORS
    if rules is ANTHROPIC:
        assert all(re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name) for name in taken.parameters.get("properties", {}))
    wanted = jsonschema_rs.is_valid(spec.parameters, value)
    both = jsonschema_rs.is_valid(taken.parameters, value) and jsonschema_rs.is_valid(moved(taken), value)
    closed = spec.parameters.get("additionalProperties") is False and "properties" in moved(taken)
    assert (both or not wanted) if closed else both == wanted
