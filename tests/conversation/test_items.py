"""Messages, blocks and results can be read by item, and are still small, truthy and not lists."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pytest

from outrider import Message, RunResult, Turn, Usage, dumps, run, think
from outrider.conversation.codec import read_conversation
from outrider.conversation.items import plain as plain_items
from outrider.conversation.messages import (
    AttachmentBlock,
    Block,
    ProviderState,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from outrider.errors import ConversationError
from outrider.testing import ScriptedModel
from tests.conversation.test_messages import FILE, SHAPE_IDS, SHAPES, STATE

CALL = ToolUseBlock("c1", "Read", {"path": "a"})
PLAIN_CALL = {"type": "tool_use", "id": "c1", "name": "Read", "input": {"path": "a"}, "arguments": {"path": "a"}}
TURN = Turn("Hm.", [Message.user("hi"), Message.assistant("Hm.", CALL)], (CALL,))
RESULT = RunResult("done", "ok", 1, Usage(3, 2), [Message.user("hi")])
ALL: list[Any] = [TURN, RESULT, RESULT.usage, STATE, Message.user("hi"), Message.assistant(CALL)]
ALL += [block for block, _ in SHAPES]


# Blocks


@pytest.mark.parametrize(("block", "plain"), SHAPES, ids=SHAPE_IDS)
def test_a_block_as_a_dict_has_the_names_of_its_json(block: Block, plain: dict[str, Any]) -> None:
    assert list(dict(block)) == list({**block}) == list(plain)
    assert dict(block)["type"] == block["type"] == block.type == plain["type"]


@pytest.mark.parametrize(("block", "plain"), SHAPES, ids=SHAPE_IDS)
def test_every_field_of_a_block_can_be_read_also_where_its_json_leaves_it_out(
    block: Block, plain: dict[str, Any]
) -> None:
    for name in block.__struct_fields__:
        assert name in block
        if name != "content":
            assert block[name] == msgspec.to_builtins(plain_items(getattr(block, name)))


def test_arguments_are_another_name_of_the_input() -> None:
    assert CALL["arguments"] is CALL.arguments is CALL["input"] is CALL.input
    assert dict(CALL) == {"type": "tool_use", "id": "c1", "name": "Read", "input": {"path": "a"}}


@pytest.mark.parametrize(
    ("content", "item"),
    [
        ((), ""),
        ((TextBlock("a"),), "a"),
        ((TextBlock(" "),), " "),
        ((TextBlock(""),), [{"type": "text", "text": ""}]),
        ((TextBlock("a", STATE),), [{"type": "text", "text": "a", "state": dict(STATE)}]),
        ((TextBlock("a"), TextBlock("b")), [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
        ((FILE,), [dict(FILE)]),
    ],
)
def test_a_content_of_one_text_is_a_string_and_any_other_a_list(content: Any, item: object) -> None:
    assert ToolResultBlock("c1", content)["content"] == item
    assert Message("user", content)["content"] == item
    assert dict(Message("user", content)) == {"role": "user", "content": item}


# Messages


def test_a_message_as_a_dict_is_the_documents_form() -> None:
    assert dict(Message.user("Hello")) == {"role": "user", "content": "Hello"}
    assert dict(Message.assistant("Hi")) == {"role": "assistant", "content": "Hi", "has_tool_calls": False}
    assert dict(Message.assistant("Hm.", CALL)) == {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "Hm."},
            {"type": "tool_use", "id": "c1", "name": "Read", "input": {"path": "a"}},
        ],
        "has_tool_calls": True,
        "tool_calls": [PLAIN_CALL],
    }


def test_calls_can_be_asked_of_every_message() -> None:
    said = [Message.user("hi"), Message.assistant("Hm.", CALL), Message.assistant("Hi.")]
    assert [message["has_tool_calls"] for message in said] == [False, True, False]
    assert [message["tool_calls"] for message in said] == [[], [PLAIN_CALL], []]
    assert [message["text"] for message in said] == ["hi", "Hm.", "Hi."]
    assert [message.has_tool_calls for message in said] == [False, True, False]


# Results


def test_a_turn_has_its_calls_as_a_list_by_item() -> None:
    assert TURN["tool_calls"] == [PLAIN_CALL]
    assert TURN.tool_calls == (CALL,)
    assert TURN["tool_calls"][0]["arguments"]["path"] == "a"
    assert TURN["conversation"][1]["content"][1]["name"] == "Read"
    assert TURN["usage"]["output_tokens"] == 0


def test_what_was_used_has_every_number() -> None:
    assert dict(Usage(3)) == {
        "input_tokens": 3,
        "output_tokens": 0,
        "cached_tokens": 0,
        "cache_write_tokens": 0,
        "reasoning_tokens": 0,
        "cost": None,
        "web_searches": 0,
        "context_tokens": None,
        "cache_write_1h_tokens": 0,
        "cached_share": 0.0,
        "total_tokens": 3,
    }
    assert RESULT["usage"]["total_tokens"] == 5


# What is the same for all


@pytest.mark.parametrize("value", ALL, ids=lambda value: type(value).__name__)
def test_every_item_is_plain_data_that_json_takes(value: Any) -> None:
    assert json.loads(json.dumps(dict(value))) == dict(value)


@pytest.mark.parametrize(("block", "_"), SHAPES, ids=SHAPE_IDS)
def test_a_plain_conversation_is_read_back_as_it_was(block: Block, _: object) -> None:
    role = "user" if block.type == "tool_result" else "assistant"
    messages = [Message(role, (block,)), Message(role, (TextBlock("Hm."), block)), TURN.conversation[1]]  # type: ignore[arg-type]
    assert read_conversation([dict(message) for message in messages]) == messages


@pytest.mark.parametrize("value", ALL, ids=lambda value: type(value).__name__)
def test_a_missing_item_is_a_key_error_that_names_those_there_are(value: Any) -> None:
    for wrong in ("nonsense", "keys", "__class__", 0, None):
        assert wrong not in value
        assert value.get(wrong) is None
        assert value.get(wrong, 5) == 5
        with pytest.raises(KeyError) as caught:
            value[wrong]
        assert f"{type(value).__name__} has no item {wrong!r}; it has " in caught.value.args[0]
        assert [name for name in value.keys() if name not in caught.value.args[0]] == []  # noqa: SIM118


@pytest.mark.parametrize("value", ALL, ids=lambda value: type(value).__name__)
def test_what_is_listed_is_there(value: Any) -> None:
    for name in value.keys():  # noqa: SIM118
        assert name in value
        assert value.get(name, value) == value[name] == dict(value)[name]


@pytest.mark.parametrize("value", [*ALL, Usage(), Message.user(), ThinkingBlock()], ids=repr)
def test_it_is_true_and_no_list_of_its_names(value: Any) -> None:
    assert value
    assert not isinstance(value, Iterable | Mapping)
    with pytest.raises(TypeError, match="not iterable"):
        list(value)
    with pytest.raises(TypeError):
        len(value)


def test_a_block_in_the_place_of_a_list_is_refused_and_not_read_as_its_names() -> None:
    with pytest.raises(TypeError, match="a prompt is text"):
        think(ToolResultBlock("c1", ()), model=ScriptedModel(["never"]))  # type: ignore[call-overload]
    with pytest.raises(ConversationError, match="a list of messages, not Message"):
        read_conversation(Message.user("hi"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="tool_results is a list"):
        think("", conversation=[], tool_results=ToolResultBlock("c1", ()), model=ScriptedModel([]))  # type: ignore[call-overload]


def test_a_tool_that_gives_back_a_block_still_gives_its_json() -> None:
    def look() -> Any:
        "Look."
        return TextBlock("nothing")

    model = ScriptedModel([ToolUseBlock("c1", "look", {}), "ok"])
    assert run("go", [look], model=model).conversation[2].tool_results[0].text == '{"type":"text","text":"nothing"}'


# What it must not cost


@pytest.mark.parametrize("value", [value for value in ALL if not isinstance(value, Turn | RunResult)], ids=repr)
def test_plain_data_stays_small_and_out_of_sight_of_the_garbage_collector(value: Any) -> None:
    bare = msgspec.defstruct("Bare", value.__struct_fields__, gc=False)
    assert sys.getsizeof(value) == sys.getsizeof(bare(*range(len(value.__struct_fields__))))
    assert not gc.is_tracked(value)
    assert not hasattr(value, "__dict__")


def test_the_json_of_a_conversation_is_that_of_its_fields() -> None:
    result = ToolResultBlock("c1", (TextBlock("x"), AttachmentBlock("a", "b", 1)), is_error=True)
    state = ProviderState("acme", "large", 1)
    conversation = [Message.assistant(ThinkingBlock("hm", state), "Hi", CALL), Message.user(result)]
    assert msgspec.json.decode(dumps(conversation), type=list[Message]) == conversation
    assert msgspec.convert(msgspec.to_builtins(conversation), list[Message]) == conversation
