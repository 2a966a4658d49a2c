"""Conversations as dicts and JSON: strings, dicts and blocks in any mix go in, equal messages come back."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.conversation.attachments import Attachment, sha256
from outrider.conversation.codec import (
    from_json,
    parse_json,
    read_conversation,
    read_message,
    read_tool_result,
    to_json,
)
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
from outrider.conversation.store import FolderStore, MemoryStore
from outrider.errors import AttachmentError, ConversationError, OutriderError

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(), json_values, max_size=3)
states = st.none() | st.builds(ProviderState, st.text(), st.text(), json_values, st.text())
texts = st.builds(TextBlock, st.text(), states)
files = st.builds(
    AttachmentBlock, st.text("0123456789abcdef", min_size=64, max_size=64), st.text(), st.integers(0), st.text()
)
results = st.builds(
    ToolResultBlock, st.text(), st.lists(texts | files, max_size=3).map(tuple), st.booleans(), st.none() | files
)
calls = st.builds(ToolUseBlock, st.text(), st.text(), objects, st.none() | st.text(), states)
blocks: st.SearchStrategy[Block] = st.one_of(texts, st.builds(ThinkingBlock, st.text(), states), calls, results, files)
messages = st.builds(Message, st.sampled_from(["user", "assistant"]), st.lists(blocks, max_size=4).map(tuple))
conversations = st.lists(messages, max_size=4)


GOOD = {"role": "user", "content": "hi"}


def said(error: pytest.ExceptionInfo[ConversationError]) -> str:
    return str(error.value)


# Round trips


@given(conversations)
def test_any_conversation_comes_back_from_json_as_it_was(conversation: list[Message]) -> None:
    assert from_json(to_json(conversation), MemoryStore()) == conversation


@given(conversations)
def test_any_conversation_comes_back_from_json_as_bytes_too(conversation: list[Message]) -> None:
    assert from_json(to_json(conversation).encode(), MemoryStore()) == conversation


@given(conversations)
def test_the_json_read_as_plain_dicts_is_the_same_conversation(conversation: list[Message]) -> None:
    assert read_conversation(json.loads(to_json(conversation))) == conversation


def test_the_json_of_a_small_conversation_is_the_documented_text() -> None:
    conversation = [
        {"role": "user", "content": "Hello"},
        Message.assistant(ToolUseBlock("c1", "Read", {"path": "a"})),
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "é"}]},
    ]
    assert to_json(conversation) == (
        '[{"role":"user","content":[{"type":"text","text":"Hello"}]},'
        '{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"Read","input":{"path":"a"}}]},'
        '{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1",'
        '"content":[{"type":"text","text":"é"}]}]}]'
    )


def test_an_empty_conversation_is_an_empty_list() -> None:
    assert to_json([]) == "[]"
    assert from_json("[]", MemoryStore()) == []


# What is accepted


def test_a_string_as_content_is_one_text_block() -> None:
    assert read_conversation([{"role": "user", "content": "Hello"}]) == [Message("user", (TextBlock("Hello"),))]


def test_an_empty_string_as_content_is_no_block() -> None:
    assert read_conversation([{"role": "user", "content": ""}]) == [Message("user", ())]


@pytest.mark.parametrize("content", ["done", ["done"], [{"type": "text", "text": "done"}], [TextBlock("done")]])
def test_a_string_as_content_of_a_tool_result_is_one_text_block(content: Any) -> None:
    plain = {"type": "tool_result", "tool_use_id": "c1", "content": content}
    expected = ToolResultBlock("c1", (TextBlock("done"),))
    assert read_message({"role": "user", "content": [plain]}) == Message.user(expected)
    assert read_tool_result(plain) == expected


def test_dicts_and_blocks_and_strings_can_be_mixed_at_every_level() -> None:
    file = AttachmentBlock("a" * 64, "text/plain", 3)
    state = ProviderState("acme", "large", [1])
    conversation = read_conversation(
        (
            Message.user("one"),
            {"role": "assistant", "content": ["two", ToolUseBlock("c1", "Read", {}), TextBlock("three")]},
            {
                "role": "user",
                "content": (
                    {"type": "tool_result", "tool_use_id": "c1", "content": [TextBlock("x"), "y", file], "whole": file},
                    {"type": "text", "text": "four", "state": state},
                ),
            },
        )
    )
    result = ToolResultBlock("c1", (TextBlock("x"), TextBlock("y"), file), whole=file)
    assert conversation == [
        Message.user("one"),
        Message.assistant("two", ToolUseBlock("c1", "Read", {}), "three"),
        Message.user(result, TextBlock("four", state)),
    ]


def test_any_mapping_and_any_iterable_will_do() -> None:
    plain = MappingProxyType({"role": "user", "content": (MappingProxyType({"type": "text", "text": "hi"}),)})
    assert read_conversation(iter([plain])) == [Message.user("hi")]


def test_the_list_that_comes_back_is_a_list_of_its_own() -> None:
    given_list = [Message.user("hi")]
    read = read_conversation(given_list)
    read.append(Message.assistant("hello"))
    assert given_list == [Message.user("hi")]


def test_dicts_that_are_read_or_written_are_not_changed() -> None:
    conversation = [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "x\ud800"}]}]
    before = json.dumps(conversation)
    read_conversation(conversation)
    to_json(conversation)
    assert json.dumps(conversation) == before


def test_a_tool_result_may_leave_out_its_type_and_its_content() -> None:
    assert read_tool_result({"tool_use_id": "c1"}) == ToolResultBlock("c1", ())
    assert read_tool_result({"tool_use_id": "c1", "content": "no", "is_error": True}) == ToolResultBlock(
        "c1", (TextBlock("no"),), is_error=True
    )


def test_a_block_that_is_a_result_already_is_passed_on() -> None:
    result = ToolResultBlock("c1", ())
    assert read_tool_result(result) is result


def test_an_empty_string_in_a_list_is_no_block_either() -> None:
    assert read_message({"role": "user", "content": ["", "a"]}) == Message.user("", "a")


def test_a_message_made_with_a_string_keeps_its_words() -> None:
    assert read_message(Message("user", "hello")).text == "hello"  # type: ignore[arg-type]


def test_a_message_with_a_role_that_does_not_exist_is_refused_before_it_is_saved() -> None:
    with pytest.raises(ConversationError, match="message 1"):
        to_json([Message("system", (TextBlock("be brief"),))])  # type: ignore[arg-type]


# The short form, in which people write messages and items are read

READ_A = {"type": "tool_use", "id": "c1", "name": "Read", "input": {"path": "a"}}
CALL_A = {"id": "c1", "name": "Read", "arguments": {"path": "a"}}
USE_A = ToolUseBlock("c1", "Read", {"path": "a"})


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"content": "Hi", "has_tool_calls": False}, Message.assistant("Hi")),
        ({"content": "Hi", "has_tool_calls": False, "tool_calls": []}, Message.assistant("Hi")),
        ({"content": "Hi", "has_tool_calls": None, "tool_calls": None}, Message.assistant("Hi")),
        ({"content": "Hm.", "has_tool_calls": True, "tool_calls": [CALL_A]}, Message.assistant("Hm.", USE_A)),
        ({"content": "Hm.", "tool_calls": [READ_A]}, Message.assistant("Hm.", USE_A)),
        ({"content": "Hm.", "tool_calls": (USE_A,)}, Message.assistant("Hm.", USE_A)),
        ({"content": "Hm.", "tool_calls": [{**CALL_A, "type": None}]}, Message.assistant("Hm.", USE_A)),
        ({"content": "", "tool_calls": [CALL_A]}, Message.assistant(USE_A)),
        ({"content": None, "tool_calls": [CALL_A]}, Message.assistant(USE_A)),
        ({"tool_calls": [CALL_A]}, Message.assistant(USE_A)),
        ({"content": ["Hm.", READ_A], "has_tool_calls": True}, Message.assistant("Hm.", USE_A)),
        ({"content": [READ_A, "Hm."], "tool_calls": [CALL_A]}, Message.assistant(USE_A, "Hm.")),
        ({"content": [CALL_A | {"type": "tool_use"}]}, Message.assistant(USE_A)),
        ({"content": [CALL_A | READ_A]}, Message.assistant(USE_A)),
        ({"content": [READ_A | {"arguments": None}]}, Message.assistant(USE_A)),
        ({"content": [CALL_A | {"type": "tool_use", "input": None}]}, Message.assistant(USE_A)),
    ],
)
def test_calls_beside_the_content_come_behind_it_and_once(plain: dict[str, Any], message: Message) -> None:
    assert read_message({"role": "assistant", **plain}) == message


def test_what_an_abbreviated_call_leaves_out_is_taken_from_the_content() -> None:
    whole = ToolUseBlock("c1", "Read", {}, '{"path": ', ProviderState("acme", "large", 1))
    plain = {"role": "assistant", "content": [whole], "tool_calls": [{"id": "c1", "name": "Read", "arguments": {}}]}
    assert read_message(plain) == Message.assistant(whole)


@pytest.mark.parametrize("role", ["user", "assistant", "tool"])
def test_keys_that_are_null_say_nothing(role: str) -> None:
    empty = {"has_tool_calls": None, "tool_calls": None, "tool_call_id": None, "is_error": None}
    block = {"type": "tool_result", "tool_use_id": "c1", "content": "x"}
    plain = {"role": role, "content": [block], **empty}
    assert read_message(plain).content == (ToolResultBlock("c1", (TextBlock("x"),)),)


@pytest.mark.parametrize(
    ("block", "read"),
    [
        ({"type": "text", "text": "a", "state": None}, TextBlock("a")),
        ({"type": "thinking", "thinking": None, "state": None}, ThinkingBlock()),
        (READ_A | {"invalid_input": None, "state": None}, USE_A),
        (
            {"type": "tool_result", "tool_use_id": "c1", "content": "x", "is_error": None, "whole": None},
            ToolResultBlock("c1", (TextBlock("x"),)),
        ),
        ({"type": "tool_result", "tool_use_id": "c1", "content": None}, ToolResultBlock("c1", ())),
        (
            {"type": "attachment", "sha256": "a", "mime_type": "b", "size": 1, "name": None, "description": None},
            AttachmentBlock("a", "b", 1),
        ),
    ],
)
def test_a_field_that_may_be_left_out_may_be_null(block: dict[str, Any], read: Block) -> None:
    assert read_message({"role": "assistant", "content": [block]}).content == (read,)


def test_a_result_by_hand_may_have_nulls() -> None:
    plain = {"type": None, "tool_use_id": "c1", "content": None, "is_error": None}
    assert read_tool_result(plain) == ToolResultBlock("c1", ())


@pytest.mark.parametrize("id", ["tool_use_id", "tool_call_id"])
def test_a_message_of_a_tool_is_a_users_with_a_result(id: str) -> None:
    file = AttachmentBlock("a" * 64, "text/plain", 3)
    plain = {"role": "tool", id: "c1", "content": ["no", file], "is_error": True, "has_tool_calls": False}
    assert read_message(plain) == Message.user(ToolResultBlock("c1", (TextBlock("no"), file), is_error=True))


def test_messages_of_tools_in_a_row_are_one_message_of_the_user() -> None:
    def result(number: int) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": f"c{number}", "content": str(number)}

    calls = {"role": "assistant", "tool_calls": [CALL_A | {"id": f"c{number}"} for number in (1, 2)]}
    in_block = {"role": "tool", "content": [{"type": "tool_result", "tool_use_id": "c3", "content": "3"}]}
    conversation = read_conversation([calls, result(1), result(2), in_block, GOOD, result(4), calls, result(1)])
    assert [message.role for message in conversation] == ["assistant", "user", "user", "user", "assistant", "user"]
    answers = [[(block.tool_use_id, block.text) for block in message.tool_results] for message in conversation]
    assert answers == [[], [("c1", "1"), ("c2", "2"), ("c3", "3")], [], [("c4", "4")], [], [("c1", "1")]]


def test_results_of_the_user_are_not_merged_with_those_of_tools() -> None:
    said = [Message.user(ToolResultBlock("c1", ())), {"role": "tool", "tool_use_id": "c2"}, GOOD]
    assert [len(message.content) for message in read_conversation(said)] == [1, 1, 1]


@given(conversations)
def test_what_is_read_by_item_is_the_same_conversation(conversation: list[Message]) -> None:
    assert read_conversation([dict(message) for message in conversation]) == conversation
    assert read_conversation([by_item(message) for message in conversation]) == conversation


def by_item(value: Any) -> Any:
    """All of it as dicts and lists, read by item."""
    if isinstance(value, Message | Block | ProviderState):
        return {name: by_item(value[name]) for name in value.keys()}  # noqa: SIM118
    return [by_item(each) for each in value] if isinstance(value, list) else value


@given(conversations)
def test_what_is_read_by_item_is_written_in_the_one_form_of_blocks(conversation: list[Message]) -> None:
    assert to_json([dict(message) for message in conversation]) == to_json(conversation)


def test_an_attachment_that_a_tools_message_brings_along_is_stored() -> None:
    store = MemoryStore()
    plain = {"type": "attachment", "sha256": sha256(PNG), "mime_type": "image/png", "size": len(PNG)}
    plain["data"] = base64.b64encode(PNG).decode()
    (message,) = from_json(json.dumps([{"role": "tool", "tool_call_id": "c1", "content": [plain]}]), store)
    assert store.read(message.tool_results[0].attachments[0]) == PNG


CONTRADICTIONS: list[tuple[dict[str, Any], list[str]]] = [
    ({"content": "x", "has_tool_calls": True}, ["has_tool_calls of message 3 is true", "no calls"]),
    ({"content": "x", "has_tool_calls": 1}, ["has_tool_calls of message 3", "int", "true or false"]),
    ({"content": [READ_A], "has_tool_calls": False}, ["has_tool_calls of message 3 is false", "has calls"]),
    ({"content": "x", "has_tool_calls": False, "tool_calls": [CALL_A]}, ["has_tool_calls of message 3 is false"]),
    ({"content": [READ_A], "tool_calls": []}, ["tool_calls of message 3 differ from the tool_use blocks"]),
    (
        {"content": [READ_A], "tool_calls": [CALL_A, CALL_A]},
        ["tool_calls of message 3 differ from the tool_use blocks"],
    ),
    (
        {"content": [READ_A], "tool_calls": [CALL_A | {"id": "c2"}]},
        ["tool_calls of message 3 differ from the tool_use"],
    ),
    (
        {"content": [READ_A], "tool_calls": [CALL_A | {"name": "x"}]},
        ["tool_calls of message 3 differ from the tool_use"],
    ),
    ({"content": [READ_A], "tool_calls": [CALL_A | {"arguments": {}}]}, ["tool_calls of message 3", "leave out"]),
    ({"content": [READ_A], "tool_calls": [CALL_A | {"invalid_input": "x"}]}, ["tool_calls of message 3", "leave out"]),
    ({"content": "x", "tool_calls": {}}, ["tool_calls of message 3", "dict", "list of calls"]),
    ({"content": "x", "tool_calls": ["Read"]}, ["message 3, call 1", "str", "id, name and arguments"]),
    ({"content": "x", "tool_calls": [CALL_A, {"type": "text", "text": "x"}]}, ["message 3, call 2", "type 'text'"]),
    ({"content": "x", "tool_calls": [{"id": "c1", "name": "Read"}]}, ["message 3, call 1", "missing", "`input`"]),
    ({"content": "x", "tool_calls": [CALL_A | {"arguments": "{}"}]}, ["arguments of message 3, call 1", "str", "dict"]),
    (
        {"content": "x", "tool_calls": [CALL_A | {"input": {}}]},
        ["arguments of message 3, call 1 differ from its input"],
    ),
    ({"content": [READ_A | {"arguments": {}}]}, ["arguments of message 3, block 1 differ from its input"]),
    ({"has_tool_calls": False, "tool_calls": []}, ["content of message 3", "missing"]),
    ({"role": "user", "content": "x", "tool_calls": [CALL_A]}, ["message 3 has tool_calls", "'assistant'"]),
    ({"role": "user", "content": "x", "has_tool_calls": True}, ["has_tool_calls of message 3", "no calls"]),
    ({"role": "user", "content": "x", "tool_call_id": "c1"}, ["message 3", "'tool_call_id'"]),
    ({"role": "tool", "tool_use_id": "c1", "tool_calls": [CALL_A]}, ["message 3 has tool_calls", "'assistant'"]),
    ({"role": "tool", "content": "x"}, ["message 3", "no tool_use_id", "user message as a tool_result"]),
    ({"role": "tool", "tool_use_id": "", "content": "x"}, ["message 3", "no tool_use_id"]),
    ({"role": "tool", "content": []}, ["message 3", "no tool_use_id"]),
    ({"role": "tool", "content": [""]}, ["message 3", "no tool_use_id"]),
    ({"role": "tool", "content": ["x"]}, ["message 3", "no tool_use_id"]),
    ({"role": "tool", "tool_use_id": "a", "tool_call_id": "b"}, ["message 3 answers two calls, 'a' and 'b'"]),
    ({"role": "tool", "tool_use_id": 5, "content": "x"}, ["message 3", "`str`", "$.tool_use_id"]),
    ({"role": "tool", "tool_use_id": "c1", "content": [READ_A]}, ["message 3, block 1", "text and attachments"]),
    ({"role": "tool", "tool_use_id": "c1", "name": "Read"}, ["message 3", "'name'", "tool_use_id"]),
]


@pytest.mark.parametrize(("plain", "words"), CONTRADICTIONS)
def test_a_message_that_contradicts_itself_is_refused_with_its_place(plain: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConversationError) as error:
        read_conversation([GOOD, GOOD, {"role": "assistant", **plain}])
    assert [word for word in words if word not in said(error)] == []


# Mistakes are named with their place


@pytest.mark.parametrize(
    "value",
    ["hello", b"hello", None, 5, {"role": "user", "content": "hi"}],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_list_of_messages_is_refused_with_advice(value: Any) -> None:
    with pytest.raises(ConversationError, match="a conversation is a list of messages") as error:
        read_conversation(value)
    assert type(value).__name__ in said(error)
    assert "loads" in said(error)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (None, ["message 3", "missing", "role and content"]),
        ("hi", ["message 3", "str", "role and content"]),
        ([], ["message 3", "list", "role and content"]),
        ({}, ["message 3", "role None", "'user' or 'assistant'"]),
        ({"role": "User", "content": "x"}, ["message 3", "'User'", "'user' or 'assistant'"]),
        ({"role": [], "content": "x"}, ["message 3", "'user' or 'assistant'"]),
        ({"role": "tool", "content": "x"}, ["message 3", "'tool'", "user message", "tool_result"]),
        ({"role": "system", "content": "x"}, ["message 3", "'system'", "system="]),
        ({"role": "developer", "content": "x"}, ["message 3", "'developer'", "system="]),
        ({"role": "user", "content": "x", "tools": []}, ["message 3", "'tools'", "role and content", "tool_calls"]),
        ({"role": "user"}, ["message 3", "content", "missing", "string or a list of blocks"]),
        ({"role": "user", "content": None}, ["message 3", "content", "missing", "string or a list of blocks"]),
        ({"role": "user", "content": 5}, ["message 3", "content", "int", "string or a list of blocks"]),
        ({"role": "user", "content": {"type": "text", "text": "x"}}, ["message 3", "dict", "list of blocks"]),
    ],
)
def test_a_mistake_in_a_message_is_named_with_its_number_and_what_to_do(message: Any, words: list[str]) -> None:
    with pytest.raises(ConversationError) as error:
        read_conversation([GOOD, GOOD, message])
    assert [word for word in words if word not in said(error)] == []


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (None, ["missing", "dict with a type"]),
        (7, ["int", "dict with a type"]),
        ({}, ["unknown type None", "text, thinking, tool_use, tool_result, attachment"]),
        ({"type": "image"}, ["'image'", "text, thinking, tool_use, tool_result, attachment"]),
        ({"type": []}, ["unknown type []", "tool_use"]),
        ({"type": "text"}, ["text", "missing required field `text`"]),
        ({"type": "text", "text": 5}, ["Expected `str`, got `int`", "$.text"]),
        ({"type": "text", "text": "a", "cache": 1}, ["unknown field `cache`"]),
        ({"type": "tool_use", "id": "c", "name": "Read", "input": "{}"}, ["tool_use", "object", "$.input"]),
        ({"type": "tool_use", "id": "c", "name": "Read", "input": {1: 2}}, ["tool_use", "key", "$.input"]),
        ({"type": "tool_result", "content": "x"}, ["tool_result", "missing required field `tool_use_id`"]),
        ({"type": "tool_result", "tool_use_id": "c", "content": ["a", 5]}, ["block 2, block 2", "int"]),
        ({"type": "tool_result", "tool_use_id": "c", "content": "x", "is_error": "no"}, ["$.is_error", "bool"]),
        ({"type": "tool_result", "tool_use_id": "c", "content": "x", "whole": 5}, ["$.whole"]),
        ({"type": "attachment", "sha256": "a", "mime_type": "b", "size": "1"}, ["attachment", "$.size", "int"]),
    ],
)
def test_a_mistake_in_a_block_is_named_with_message_and_block(block: Any, words: list[str]) -> None:
    with pytest.raises(ConversationError) as error:
        read_conversation([GOOD, GOOD, {"role": "user", "content": ["fine", block]}])
    assert [word for word in ["message 3", "block 2", *words] if word not in said(error)] == []


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ("x", ["str", "tool_use_id and content"]),
        (None, ["missing", "tool_use_id and content"]),
        ({"type": "text", "text": "x"}, ["text block", "must be a tool_result"]),
        ({"content": "x"}, ["missing required field `tool_use_id`"]),
        ({"tool_use_id": "c1", "content": 5}, ["int", "string or a list of blocks"]),
        ({"tool_use_id": "c1", "contents": "x"}, ["unknown field `contents`"]),
    ],
)
def test_a_mistake_in_a_tool_result_is_named_with_its_place(result: Any, words: list[str]) -> None:
    with pytest.raises(ConversationError) as error:
        read_tool_result(result, "result 2")
    assert [word for word in ["result 2", *words] if word not in said(error)] == []


def test_a_conversation_error_is_a_value_error_and_one_of_ours() -> None:
    assert issubclass(ConversationError, ValueError)
    assert issubclass(ConversationError, OutriderError)


def test_the_mistake_is_the_whole_story_without_an_error_from_inside() -> None:
    with pytest.raises(ConversationError) as error:
        read_message({"role": "user", "content": [{"type": "text"}]})
    assert error.value.__suppress_context__


def test_several_unknown_keys_of_different_types_are_named_as_well() -> None:
    with pytest.raises(ConversationError, match="message 1"):
        read_conversation([{"role": "user", "content": "a", 1: 2, "b": 3}])  # type: ignore[dict-item]


def test_a_block_that_a_result_cannot_hold_is_named_by_its_type_and_place() -> None:
    inner = {"type": "tool_result", "tool_use_id": "c1", "content": ["ok", {"type": "thinking"}]}
    with pytest.raises(ConversationError) as error:
        read_conversation([{"role": "user", "content": [inner]}])
    assert "message 1, block 1, block 2" in said(error)
    assert "thinking" in said(error)


def test_blocks_of_a_result_are_counted_as_the_writer_counts_them() -> None:
    inner = {"type": "tool_result", "tool_use_id": "c1", "content": ["", "ok", {"type": "thinking"}]}
    with pytest.raises(ConversationError, match="message 1, block 1, block 3"):
        read_conversation([{"role": "user", "content": [inner]}])


def test_an_input_that_json_cannot_hold_is_named_with_its_place() -> None:
    with pytest.raises(ConversationError, match="message 2"):
        to_json([Message.user("hi"), Message.assistant(ToolUseBlock("c1", "Read", {"when": object()}))])


# Attachments


def conversation_with(file: AttachmentBlock) -> list[Message]:
    return [
        Message.user("Look.", file),
        Message.assistant(ToolUseBlock("c1", "Read", {})),
        Message.user(ToolResultBlock("c1", (TextBlock("…"), file), whole=file)),
    ]


def test_a_saved_conversation_has_the_metadata_of_its_files_and_no_bytes() -> None:
    file = MemoryStore().put(Attachment(PNG, name="a.png", description="a chart"))
    text = to_json([Message.user(file)])
    assert json.loads(text)[0]["content"] == [
        {
            "type": "attachment",
            "sha256": sha256(PNG),
            "mime_type": "image/png",
            "size": len(PNG),
            "name": "a.png",
            "description": "a chart",
        }
    ]


def test_a_reference_is_read_without_its_bytes_being_there() -> None:
    file = AttachmentBlock("a" * 64, "text/plain", 3)
    conversation = conversation_with(file)
    assert from_json(to_json(conversation), MemoryStore()) == conversation


def test_an_inline_dump_brings_the_bytes_to_another_machine(tmp_path: Path) -> None:
    here, there = FolderStore(tmp_path / "here"), FolderStore(tmp_path / "there")
    files = [
        here.put(Attachment(PNG, name="a.png", description="a chart")),
        here.put(Attachment(b"", name="empty.txt")),
        here.put(Attachment(bytes(range(256)) * 5000)),
    ]
    conversation = [message for file in files for message in conversation_with(file)]
    loaded = from_json(to_json(conversation, here), there)
    assert loaded == conversation
    for file in files:
        assert there.read(file) == here.read(file)


@pytest.mark.parametrize("place", ["message", "result", "whole"])
def test_an_inline_dump_carries_the_files_of_every_place(place: str) -> None:
    here, there = MemoryStore(), MemoryStore()
    file = here.put(Attachment(PNG, name="a.png"))
    message = {
        "message": Message.user(file),
        "result": Message.user(ToolResultBlock("c1", (file,))),
        "whole": Message.user(ToolResultBlock("c1", (TextBlock("…"),), whole=file)),
    }[place]
    loaded = from_json(to_json([message], here), there)
    assert loaded == [message]
    assert there.read(file) == PNG


def test_an_inline_dump_holds_the_bytes_as_base64_beside_the_metadata() -> None:
    store = MemoryStore()
    file = store.put(Attachment(PNG, name="a.png"))
    (block,) = json.loads(to_json([Message.user(file)], store))[0]["content"]
    assert base64.b64decode(block["data"]) == PNG
    assert block["sha256"] == sha256(PNG)


def test_an_inline_dump_says_which_file_is_missing() -> None:
    with pytest.raises(AttachmentError, match=r"q3\.pdf is not in the attachment store"):
        to_json([Message.user(AttachmentBlock("a" * 64, "application/pdf", 3, "q3.pdf"))], MemoryStore())


@given(json_values)
def test_a_call_whose_own_input_looks_like_an_attachment_is_left_alone(data: Any) -> None:
    lookalike = {"type": "attachment", "sha256": "x", "data": data}
    nested = {"type": "tool_result", "tool_use_id": "c9", "content": [lookalike]}
    conversation = [
        Message.assistant(ToolUseBlock("c1", "Store", lookalike)),
        Message.assistant(ToolUseBlock("c2", "Store", {"content": [lookalike, nested], "whole": lookalike})),
    ]
    store = MemoryStore()
    assert from_json(to_json(conversation, store), store) == conversation


def test_state_of_a_provider_that_looks_like_an_attachment_is_left_alone() -> None:
    state = ProviderState("acme", "large", {"type": "attachment", "data": "not base64", "content": []})
    conversation = [Message.assistant(ThinkingBlock("hm", state), TextBlock("hi", state))]
    store = MemoryStore()
    assert from_json(to_json(conversation, store), store) == conversation


def test_bytes_of_an_inline_dump_have_no_limit_of_size() -> None:
    here, there = MemoryStore(), MemoryStore()
    file = here.put(Attachment(bytes(21 * 1024 * 1024)), max_bytes=22 * 1024 * 1024)
    from_json(to_json([Message.user(file)], here), there)
    assert len(there.read(file)) == file.size


def test_plain_json_can_be_parsed_on_its_own() -> None:
    assert parse_json('{"a": [1, "\\ud83d\\ude00"]}') == {"a": [1, "😀"]}
