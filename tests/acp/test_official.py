"""The check against the official schemas is itself able to fail."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acp.official import check, definition_of, schema


def update(**fields: Any) -> dict[str, Any]:
    return {"sessionId": "s", "update": {"sessionUpdate": "tool_call", "toolCallId": "1", "title": "t", **fields}}


GOOD = [
    ("SessionNotification", update(), 1),
    ("SessionNotification", update(kind="read", status="pending", rawInput={"any": {"thing": 1}}, _meta={"a": 1}), 1),
    ("SessionNotification", update(content=[{"type": "diff", "path": "/a", "oldText": None, "newText": "b"}]), 1),
    ("SessionNotification", update(content=[{"type": "content", "content": {"type": "text", "text": "t"}}]), 1),
    ("RequestPermissionOutcome", {"outcome": "selected", "optionId": "o"}, 1),
    ("McpServer", {"name": "n", "command": "c", "args": [], "env": [{"name": "A", "value": "b"}]}, 1),
    ("InitializeResponse", {"protocolVersion": 1}, 1),
    ("UpdateSessionNotification", {"sessionId": "s", "update": {"sessionUpdate": "_own", "anything": 1}}, 2),
    ("ToolCallUpdate", {"toolCallId": "1", "status": "_resting"}, 2),
    ("ToolCallUpdate", {"toolCallId": "1", "status": "cancelled", "content": None}, 2),
]
BAD = [
    ("SessionNotification", update(colour="red"), 1, "unknown key 'colour' at $.update"),
    ("SessionNotification", update() | {"more": 1}, 1, "unknown key 'more' at $"),
    ("SessionNotification", update(locations=[{"path": "/a", "column": 3}]), 1, "'column' at $.update.locations[0]"),
    (
        "SessionNotification",
        update(content=[{"type": "content", "content": {"type": "text", "text": "t", "size": 1}}]),
        1,
        "unknown key 'size' at $.update.content[0].content",
    ),
    ("SessionNotification", update(content=[{"type": "content", "content": {}}]), 1, "not valid"),
    ("ToolCallUpdate", {"toolCallId": "1", "kind": "juggle"}, 1, "kind"),
    ("ToolCall", {"toolCallId": "1"}, 1, '"title" is a required property'),
    ("RequestPermissionOutcome", {"outcome": "cancelled", "optionId": "o"}, 1, "unknown key 'optionId'"),
    ("ToolCallUpdate", {"toolCallId": "1", "status": "cancelled"}, 1, "status"),
    ("ToolCallUpdate", {"toolCallId": "1", "status": "resting"}, 2, "no known variant at $.status"),
    ("UpdateSessionNotification", {"sessionId": "s", "update": {"sessionUpdate": "tool_cal"}}, 2, "no known variant"),
    ("ToolCallUpdate", {"toolCallId": "1", "colour": "red"}, 2, "unknown key 'colour' at $"),
]


@pytest.mark.parametrize(("name", "value", "version"), GOOD)
def test_what_the_protocol_allows_passes(name: str, value: Any, version: int) -> None:
    check(name, value, version)


@pytest.mark.parametrize(("name", "value", "version", "said"), BAD)
def test_what_the_protocol_does_not_know_is_refused_with_its_place(
    name: str, value: Any, version: int, said: str
) -> None:
    with pytest.raises(AssertionError) as caught:
        check(name, value, version)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("side", "method", "kind", "version", "name"),
    [
        ("agent", "session/prompt", "params", 1, "PromptRequest"),
        ("agent", "session/prompt", "result", 1, "PromptResponse"),
        ("client", "session/update", "params", 1, "SessionNotification"),
        ("client", "session/update", "params", 2, "UpdateSessionNotification"),
        ("client", "fs/read_text_file", "result", 1, "ReadTextFileResponse"),
        ("agent", "session/cancel", "params", 1, "CancelNotification"),
        ("client", "$/cancel_request", "params", 1, "CancelRequestNotification"),
    ],
)
def test_a_method_leads_to_its_definition(side: Any, method: str, kind: Any, version: int, name: str) -> None:
    assert definition_of(side, method, kind, version) == name


def test_a_method_that_the_version_does_not_have_is_an_error() -> None:
    with pytest.raises(KeyError, match="version 2 has no params of fs/read_text_file"):
        definition_of("client", "fs/read_text_file", "params", 2)


@pytest.mark.parametrize("version", [1, 2])
def test_every_method_has_both_definitions_or_is_a_notification(version: int) -> None:
    methods = {(each["x-side"], each["x-method"]) for each in schema(version)["$defs"].values() if each.get("x-method")}
    assert len(methods) > 10
    for side, method in methods:
        parameters = definition_of(side, method, "params", version)
        if not parameters.endswith("Notification"):
            assert definition_of(side, method, "result", version).endswith("Response")
