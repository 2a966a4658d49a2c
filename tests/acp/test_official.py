"""The check against the official schemas is itself able to fail."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acp.official import check, definition_of, schema


def update(**fields: Any) -> dict[str, Any]:
    return {"sessionId": "s", "update": {"sessionUpdate": "tool_call", "toolCallId": "1", "title": "t", **fields}}


GOOD = [
    ("SessionNotification", update()),
    ("SessionNotification", update(kind="read", status="pending", rawInput={"any": {"thing": 1}}, _meta={"a": 1})),
    ("SessionNotification", update(content=[{"type": "diff", "path": "/a", "oldText": None, "newText": "b"}])),
    ("SessionNotification", update(content=[{"type": "content", "content": {"type": "text", "text": "t"}}])),
    ("RequestPermissionOutcome", {"outcome": "selected", "optionId": "o"}),
    ("McpServer", {"name": "n", "command": "c", "args": [], "env": [{"name": "A", "value": "b"}]}),
    ("InitializeResponse", {"protocolVersion": 1}),
]
BAD = [
    ("SessionNotification", update(colour="red"), "unknown key 'colour' at $.update"),
    ("SessionNotification", update() | {"more": 1}, "unknown key 'more' at $"),
    ("SessionNotification", update(locations=[{"path": "/a", "column": 3}]), "'column' at $.update.locations[0]"),
    (
        "SessionNotification",
        update(content=[{"type": "content", "content": {"type": "text", "text": "t", "size": 1}}]),
        "unknown key 'size' at $.update.content[0].content",
    ),
    ("SessionNotification", update(content=[{"type": "content", "content": {}}]), "not valid"),
    ("ToolCallUpdate", {"toolCallId": "1", "kind": "juggle"}, "kind"),
    ("ToolCall", {"toolCallId": "1"}, '"title" is a required property'),
    ("RequestPermissionOutcome", {"outcome": "cancelled", "optionId": "o"}, "unknown key 'optionId'"),
    ("ToolCallUpdate", {"toolCallId": "1", "status": "cancelled"}, "status"),
]


@pytest.mark.parametrize(("name", "value"), GOOD)
def test_what_the_protocol_allows_passes(name: str, value: Any) -> None:
    check(name, value)


@pytest.mark.parametrize(("name", "value", "said"), BAD)
def test_what_the_protocol_does_not_know_is_refused_with_its_place(name: str, value: Any, said: str) -> None:
    with pytest.raises(AssertionError) as caught:
        check(name, value)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("side", "method", "kind", "name"),
    [
        ("agent", "session/prompt", "params", "PromptRequest"),
        ("agent", "session/prompt", "result", "PromptResponse"),
        ("client", "session/update", "params", "SessionNotification"),
        ("client", "fs/read_text_file", "result", "ReadTextFileResponse"),
        ("agent", "session/cancel", "params", "CancelNotification"),
        ("client", "$/cancel_request", "params", "CancelRequestNotification"),
    ],
)
def test_a_method_leads_to_its_definition(side: Any, method: str, kind: Any, name: str) -> None:
    assert definition_of(side, method, kind) == name


def test_a_method_that_the_protocol_does_not_have_is_an_error() -> None:
    with pytest.raises(KeyError, match="the protocol has no params of fs/read_everything"):
        definition_of("client", "fs/read_everything", "params")


def test_every_method_has_both_definitions_or_is_a_notification() -> None:
    methods = {(each["x-side"], each["x-method"]) for each in schema()["$defs"].values() if each.get("x-method")}
    assert len(methods) > 10
    for side, method in methods:
        parameters = definition_of(side, method, "params")
        if not parameters.endswith("Notification"):
            assert definition_of(side, method, "result").endswith("Response")
