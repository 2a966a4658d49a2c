"""Hazard: JSON of a conversation that is torn, foreign, hostile or no JSON at all. One error, and it says why."""

from __future__ import annotations

import base64
import json
import sys
from contextlib import suppress
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.conversation.attachments import sha256
from outrider.conversation.codec import from_json, read_conversation, to_json
from outrider.conversation.messages import BLOCK_TYPES, Block, Message, ToolResultBlock, ToolUseBlock
from outrider.conversation.store import MemoryStore
from outrider.errors import ConversationError


def load(text: str | bytes) -> list[Message]:
    return from_json(text, MemoryStore())


def message_with(block: str) -> str:
    """A conversation of one message with this block, which may be anything."""
    return '[{"role":"assistant","content":[' + block + "]}]"


def inline(**fields: Any) -> str:
    """A conversation whose second message has, as its second block, an attachment with these fields."""
    plain = {"type": "attachment", "mime_type": "text/plain", "size": 3, "name": "a.txt", "sha256": sha256(b"abc")}
    plain |= {"data": base64.b64encode(b"abc").decode(), **fields}
    return json.dumps([{"role": "user", "content": "hi"}, {"role": "user", "content": ["see", plain]}])


# Not JSON


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["not valid JSON", "line 1 column 1"]),
        ("   ", ["not valid JSON"]),
        ("hello", ["not valid JSON", "line 1 column 1"]),
        ('[{"role": "user",\n "content": }]', ["not valid JSON", "line 2 column 13"]),
        ('[{"role": "user", "content": "x"}', ["not valid JSON", "line 1"]),
        ("[] []", ["not valid JSON", "line 1 column 4"]),
        ("[{'role': 'user'}]", ["not valid JSON", "line 1 column 3"]),
        (b"[\xff]", ["not UTF-8", "0xff"]),
        ('[{"role": "user", "content": "a\nb"}]', ["not valid JSON", "control character"]),
    ],
)
def test_text_that_is_no_json_is_refused_with_the_place_where_it_broke(text: str | bytes, words: list[str]) -> None:
    with pytest.raises(ConversationError) as error:
        load(text)
    assert [word for word in words if word not in str(error.value)] == []


WHOLE = to_json(
    [
        Message.user("héllo"),
        Message.assistant(ToolUseBlock("c1", "read", {"a": 1})),
        Message.user(ToolResultBlock("c1", ())),
    ]
).encode()


def test_a_file_that_was_cut_anywhere_is_refused() -> None:
    for length in range(len(WHOLE)):
        with pytest.raises(ConversationError):
            load(WHOLE[:length])


@given(st.binary(max_size=60))
def test_any_bytes_are_a_conversation_or_a_conversation_error(data: bytes) -> None:
    with suppress(ConversationError):
        assert isinstance(load(data), list)


# JSON, but no conversation

words = st.sampled_from(
    [*Message.__struct_fields__, *BLOCK_TYPES, "user", "assistant", "tool", "type", "data", "arguments"]
    + ["tool_calls", "has_tool_calls", "tool_call_id"]
    + [field for block in get_args(Block) for field in block.__struct_fields__]
)
near_misses = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 1) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=5),
    max_leaves=25,
)
blocks = st.fixed_dictionaries({"type": words}) | st.builds(
    lambda kind, rest: {**rest, "type": kind},
    st.sampled_from(["text", "tool_use", "tool_result", "attachment", "thinking"]),
    st.dictionaries(words, near_misses, max_size=5),
)
near_messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool"]), "content": st.lists(blocks | near_misses, max_size=3)},
    optional={
        "has_tool_calls": near_misses,
        "tool_calls": st.lists(blocks | near_misses, max_size=3) | near_misses,
        "tool_use_id": near_misses,
        "tool_call_id": near_misses,
        "is_error": near_misses,
    },
)


@given(near_misses | st.lists(near_messages | near_misses, max_size=3))
def test_any_json_is_a_conversation_or_a_conversation_error(value: Any) -> None:
    with suppress(ConversationError):
        loaded = load(json.dumps(value))
        assert load(to_json(loaded)) == loaded


@pytest.mark.parametrize("text", ["null", "{}", '"hi"', "5", "true", '{"messages": []}', '{"role": "user"}'])
def test_json_that_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(ConversationError, match="a conversation is a list of messages"):
        load(text)


def test_a_conversation_in_another_products_shape_is_refused_with_advice() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    foreign = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "x"},
    ]
    with pytest.raises(ConversationError, match=r"message 2, call 1 .*'function'.*id, name and arguments"):
        load(json.dumps(foreign))
    with pytest.raises(ConversationError, match=r"message 1 has the role 'system'.*system="):
        load(json.dumps([{"role": "system", "content": "Be brief."}, *foreign]))


def test_the_last_of_two_equal_keys_counts_as_everywhere_in_json() -> None:
    assert load('[{"role":"user","role":"assistant","content":"hi"}]') == [Message.assistant("hi")]


def test_a_byte_order_mark_before_bytes_does_no_harm() -> None:
    assert load(b'\xef\xbb\xbf[{"role":"user","content":"hi"}]') == [Message.user("hi")]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_json_does_not_have_is_refused_instead_of_lost(number: str) -> None:
    with pytest.raises(ConversationError):
        load(message_with('{"type":"tool_use","id":"c","name":"n","input":{"x":' + number + "}}"))


# Deep


def test_brackets_without_end_are_refused() -> None:
    for text in ("[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 100_000):
        with pytest.raises(ConversationError, match="too deep"):
            load(text)


def overflows(text: str) -> bool:
    """Whether the reader runs out of stack, instead of taking or refusing the text."""
    try:
        load(text)
    except ConversationError:
        return False
    except RecursionError:
        return True
    return False


DEPTHS = range(100, sys.getrecursionlimit() + 100, 50)
CALL = '{"type":"tool_use","id":"c","name":"n","input":'
RESULT = '{"type":"tool_result","tool_use_id":"c","content":['


def test_an_input_is_taken_or_refused_however_deep() -> None:
    deep = (CALL + '{"a":' * depth + "1" + "}" * depth + "}" for depth in DEPTHS)
    assert not any(overflows(message_with(block)) for block in deep)


def test_calls_that_are_said_twice_are_taken_or_refused_however_deep() -> None:
    inputs = ('{"a":' * depth + "1" + "}" * depth for depth in DEPTHS)
    calls = (CALL + deep + ',"arguments":' + deep + "}" for deep in inputs)
    deep = (f'[{{"role":"assistant","content":[{call}],"tool_calls":[{call}]}}]' for call in calls)
    assert not any(map(overflows, deep))


def test_blocks_too_deep_to_be_compared_are_refused() -> None:
    def deep() -> ToolUseBlock:
        value: dict[str, Any] = {}
        for _ in range(10 * sys.getrecursionlimit()):
            value = {"a": value}
        return ToolUseBlock("c1", "read", value)

    with pytest.raises(ConversationError, match=r"message 1 are nested too deeply"):
        read_conversation([{"role": "assistant", "content": [deep()], "tool_calls": [deep()]}])


def test_an_input_with_a_surrogate_is_taken_or_refused_however_deep() -> None:
    deep = (CALL + '{"a":' * depth + r'"\ud800"' + "}" * depth + "}" for depth in DEPTHS)
    assert not any(overflows(message_with(block)) for block in deep)


def test_results_inside_of_results_are_refused_however_deep() -> None:
    deep = (RESULT * depth + "]}" * depth for depth in DEPTHS)
    assert not any(overflows(message_with(block)) for block in deep)


def test_brackets_without_end_after_something_that_is_no_json_are_refused() -> None:
    assert not overflows("[NaN," + "[" * 100_000)


def test_an_ordinary_depth_is_no_problem() -> None:
    value: Any = "x"
    for _ in range(100):
        value = {"a": [value]}
    conversation = [Message.assistant(ToolUseBlock("c", "n", value))]
    assert load(to_json(conversation)) == conversation


# Bytes that come along


def test_the_example_of_an_inline_attachment_is_sound() -> None:
    assert load(inline())[1].text == "see"


@pytest.mark.parametrize("data", [5, None, [], {}, "a", "abc", "====", "YWJj\nYWJj", "YWJj!"], ids=repr)
def test_data_that_is_no_base64_is_refused_with_its_place(data: Any) -> None:
    with pytest.raises(ConversationError, match=r"message 2, block 2.* is not base64"):
        load(inline(data=data))


@pytest.mark.parametrize("data", ["YWJjé", "\ud83d"], ids=ascii)
def test_data_that_is_not_even_ascii_is_refused_alike(data: str) -> None:
    with pytest.raises(ConversationError, match=r"message 2, block 2.* is not base64"):
        load(inline(data=data))


@pytest.mark.parametrize("digest", ["b" * 64, "", None, 5, "../../etc/passwd", sha256(b"abc").upper()], ids=repr)
def test_data_under_a_hash_that_is_not_its_own_is_refused(digest: Any) -> None:
    with pytest.raises(ConversationError, match=r"message 2, block 2.*sha256"):
        load(inline(sha256=digest))


@pytest.mark.parametrize("field", ["mime_type", "name", "size", "description"])
def test_metadata_of_the_wrong_type_beside_the_data_is_refused_with_its_place(field: str) -> None:
    with pytest.raises(ConversationError, match=rf"message 2, block 2.*\$\.{field}"):
        load(inline(**{field: ["x"]}))


def test_data_beside_any_other_block_is_an_unknown_field() -> None:
    plain = [{"role": "user", "content": [{"type": "text", "text": "x", "data": "YWJj"}]}]
    with pytest.raises(ConversationError, match=r"message 1, block 1.*unknown field `data`"):
        load(json.dumps(plain))


@pytest.mark.parametrize("wrong", [{"data": "!"}, {"sha256": "b" * 64}], ids=["data", "sha256"])
def test_what_is_wrong_with_data_is_named_with_its_place(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConversationError, match="message 2, block 2"):
        load(inline(**wrong))


def test_a_size_that_the_data_does_not_have_is_refused() -> None:
    with pytest.raises(ConversationError, match=r"message 2, block 2.*size"):
        load(inline(size=99))
