"""Messages and blocks: their JSON is the documented shape, and they cannot be changed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from outrider.conversation.messages import (
    AttachmentBlock,
    Block,
    Message,
    ProviderState,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from outrider.conversation.usage import Usage

HASH = "0123456789abcdef" * 4
STATE = ProviderState("acme", "large", {"signature": "s"}, "eu")
PLAIN_STATE = {"provider": "acme", "model": "large", "data": {"signature": "s"}, "route": "eu"}
FILE = AttachmentBlock(HASH, "image/png", 3, "a.png", "a chart")
PLAIN_FILE = {
    "type": "attachment",
    "sha256": HASH,
    "mime_type": "image/png",
    "size": 3,
    "name": "a.png",
    "description": "a chart",
}

SHAPES: list[tuple[Block, dict[str, Any]]] = [
    (TextBlock("hi"), {"type": "text", "text": "hi"}),
    (TextBlock("hi", STATE), {"type": "text", "text": "hi", "state": PLAIN_STATE}),
    (TextBlock(""), {"type": "text", "text": ""}),
    (ThinkingBlock("hm"), {"type": "thinking", "thinking": "hm"}),
    (ThinkingBlock("", STATE), {"type": "thinking", "state": PLAIN_STATE}),
    (
        ToolUseBlock("c1", "Read", {"path": "a", "deep": {"n": [1, None, 2.5, True]}}),
        {"type": "tool_use", "id": "c1", "name": "Read", "input": {"path": "a", "deep": {"n": [1, None, 2.5, True]}}},
    ),
    (ToolUseBlock("c1", "Now", {}), {"type": "tool_use", "id": "c1", "name": "Now", "input": {}}),
    (
        ToolUseBlock("c1", "Read", {}, invalid_input='{"path": '),
        {"type": "tool_use", "id": "c1", "name": "Read", "input": {}, "invalid_input": '{"path": '},
    ),
    (FILE, PLAIN_FILE),
    (
        ToolResultBlock("c1", (TextBlock("done"), FILE)),
        {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "done"}, PLAIN_FILE]},
    ),
    (
        ToolResultBlock("c1", (TextBlock("no"),), is_error=True),
        {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "no"}], "is_error": True},
    ),
    (
        ToolResultBlock("c1", (TextBlock("head … tail"),), whole=FILE),
        {
            "type": "tool_result",
            "tool_use_id": "c1",
            "content": [{"type": "text", "text": "head … tail"}],
            "whole": PLAIN_FILE,
        },
    ),
]
SHAPE_IDS = [f"{plain['type']}-{number}" for number, (_, plain) in enumerate(SHAPES)]


@pytest.mark.parametrize(("block", "plain"), SHAPES, ids=SHAPE_IDS)
def test_a_block_in_json_is_exactly_the_documented_shape(block: Block, plain: dict[str, Any]) -> None:
    assert msgspec.json.decode(msgspec.json.encode(block)) == plain


@pytest.mark.parametrize(("block", "plain"), SHAPES, ids=SHAPE_IDS)
def test_a_block_comes_back_from_its_json_as_it_was(block: Block, plain: dict[str, Any]) -> None:
    assert msgspec.json.decode(msgspec.json.encode(plain), type=Block) == block


def test_a_successful_result_has_no_is_error_and_a_failed_one_has_it_true() -> None:
    succeeded = msgspec.to_builtins(ToolResultBlock("c1", (TextBlock("x"),), is_error=False))
    failed = msgspec.to_builtins(ToolResultBlock("c1", (TextBlock("x"),), is_error=True))
    assert "is_error" not in succeeded
    assert failed["is_error"] is True


def test_a_result_without_content_still_has_the_documented_key() -> None:
    plain = msgspec.json.decode(msgspec.json.encode(ToolResultBlock("c1", ())))
    assert plain == {"type": "tool_result", "tool_use_id": "c1", "content": []}


def test_a_message_in_json_is_its_role_and_its_blocks() -> None:
    message = Message.assistant("I'll look.", ToolUseBlock("c1", "Read", {"path": "a"}))
    assert msgspec.json.encode(message) == (
        b'{"role":"assistant","content":[{"type":"text","text":"I\'ll look."},'
        b'{"type":"tool_use","id":"c1","name":"Read","input":{"path":"a"}}]}'
    )


def test_a_message_without_blocks_still_has_a_content() -> None:
    assert msgspec.json.encode(Message.user()) == b'{"role":"user","content":[]}'


@pytest.mark.parametrize(
    "plain",
    [
        {"type": "text", "text": "hi", "cache_control": {}},
        {"type": "tool_use", "id": "c1", "name": "Read", "input": {}, "index": 0},
        {"type": "tool_result", "tool_use_id": "c1", "content": [], "error": True},
        {"type": "image", "source": "x"},
        {"text": "hi"},
        {"type": "text"},
    ],
)
def test_what_the_shape_does_not_have_is_refused_instead_of_lost(plain: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(plain, Block)


@pytest.mark.parametrize("value", [Message.user("hi"), STATE, Usage(), *(block for block, _ in SHAPES)])
def test_nothing_can_be_changed(value: msgspec.Struct) -> None:
    field = value.__struct_fields__[0]
    with pytest.raises(AttributeError):
        setattr(value, field, "other")


def test_strings_become_text_blocks_and_blocks_stay_as_they_are() -> None:
    call = ToolUseBlock("c1", "Read", {})
    message = Message.user("a", call, "b", FILE)
    assert message == Message("user", (TextBlock("a"), call, TextBlock("b"), FILE))
    assert message.content[1] is call


def test_a_message_may_be_made_with_a_string_or_a_list_as_its_content() -> None:
    call = ToolUseBlock("c1", "Read", {})
    assert Message("user", "hello") == Message.user("hello")  # type: ignore[arg-type]
    assert Message("assistant", ["a", call]) == Message.assistant("a", call)  # type: ignore[arg-type]
    assert Message("user", "").content == ()  # type: ignore[arg-type]


def test_an_empty_string_makes_no_block() -> None:
    assert Message.user("").content == ()
    assert Message.assistant("", "a", "").content == (TextBlock("a"),)


def test_a_blank_string_is_not_an_empty_one() -> None:
    assert Message.user(" ").content == (TextBlock(" "),)


def test_text_blocks_side_by_side_are_one_text() -> None:
    assert Message.assistant("2 + ", "2 = ", "4").text == "2 + 2 = 4"


def test_what_stands_between_two_texts_makes_a_paragraph() -> None:
    message = Message.assistant("First.", ToolUseBlock("c1", "Read", {}), FILE, "Then", " more.")
    assert message.text == "First.\n\nThen more."


def test_a_message_without_words_has_an_empty_text() -> None:
    assert Message.user().text == ""
    assert Message.assistant(ThinkingBlock("hm"), ToolUseBlock("c1", "Read", {})).text == ""


def test_calls_and_results_are_listed_in_order() -> None:
    first, second = ToolUseBlock("c1", "Read", {}), ToolUseBlock("c2", "Grep", {})
    assert Message.assistant("a", first, "b", second).tool_calls == (first, second)
    good, bad = ToolResultBlock("c1", ()), ToolResultBlock("c2", (), is_error=True)
    assert Message.user(good, bad, "and now?").tool_results == (good, bad)
    assert Message.user("hi").tool_calls == Message.user("hi").tool_results == ()


def test_a_result_tells_its_words_from_its_files() -> None:
    other = AttachmentBlock(HASH, "text/plain", 1)
    result = ToolResultBlock("c1", (TextBlock("a"), FILE, TextBlock("b"), other))
    assert result.text == "ab"
    assert result.attachments == (FILE, other)


def test_a_file_is_called_by_its_name_or_by_what_it_is() -> None:
    assert FILE.label == "a.png"
    assert AttachmentBlock(HASH, "image/png", 3).label == "image/png 0123456789ab"


def test_usage_adds_up() -> None:
    total = Usage(10, 5, 3, 2, 1, 0.25) + Usage(100, 50, 30, 20, 10, 0.5)
    assert total == Usage(110, 55, 33, 22, 11, 0.75)
    assert total.total_tokens == 165


@pytest.mark.parametrize(
    ("one", "other", "total"), [(None, None, None), (0.5, None, 0.5), (None, 0.5, 0.5), (0.0, None, 0.0)]
)
def test_a_cost_is_unknown_only_if_no_part_is_known(
    one: float | None, other: float | None, total: float | None
) -> None:
    assert (Usage(cost=one) + Usage(cost=other)).cost == total


def test_usage_in_json_has_only_what_was_used() -> None:
    assert msgspec.to_builtins(Usage()) == {}
    assert msgspec.to_builtins(Usage(3, cost=0.0)) == {"input_tokens": 3, "cost": 0.0}
