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

from outrider.attachments import Attachment, sha256
from outrider.conversation import from_json, parse_json, read_conversation, read_message, read_tool_result, to_json
from outrider.errors import AttachmentError, ConversationError, OutriderError
from outrider.messages import (
    AttachmentBlock,
    Block,
    Message,
    ProviderState,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from outrider.store import FolderStore, MemoryStore

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


GOOD = {"role": "user", "content": "hi"}


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
        ({"role": "user", "content": "x", "tool_calls": []}, ["message 3", "'tool_calls'", "blocks of the content"]),
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
        ({"type": "tool_result", "tool_use_id": "c", "content": None}, ["content", "missing", "string or a list"]),
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
