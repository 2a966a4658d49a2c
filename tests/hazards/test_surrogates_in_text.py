"""Hazard: half a surrogate pair in a text, which no encoder takes. It is replaced, and the words around it are kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.conversation.attachments import Attachment
from outrider.conversation.codec import from_json, read_conversation, read_tool_result, to_json
from outrider.conversation.messages import (
    AttachmentBlock,
    Message,
    ProviderState,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from outrider.conversation.store import FolderStore, MemoryStore
from outrider.errors import AttachmentError, ConversationError
from outrider.providers.base import Reply, Request
from outrider.testing import ScriptedModel, Step, call, malformed_call

BAD, GOOD = "caf\ud83d!", "caf\ufffd!"


def conversation(word: str) -> list[Message]:
    """The word at every place that has words."""
    state = ProviderState(word, word, {word: [word]}, word)
    file = AttachmentBlock("a" * 64, word, 3, word, word)
    return [
        Message.user(word, file),
        Message.assistant(
            ThinkingBlock(word, state),
            TextBlock(word, state),
            ToolUseBlock(word, word, {word: [word, {word: word}]}, word, state),
        ),
        Message.user(ToolResultBlock(word, (TextBlock(word), file), whole=file)),
    ]


def test_a_surrogate_at_any_place_can_be_saved_and_is_replaced() -> None:
    assert from_json(to_json(conversation(BAD)), MemoryStore()) == conversation(GOOD)


def test_saving_leaves_the_messages_as_they_were() -> None:
    messages = conversation(BAD)
    to_json(messages)
    assert messages == conversation(BAD)


@given(st.text(st.characters()))
def test_any_text_whatever_its_surrogates_can_be_saved_and_loaded(word: str) -> None:
    text = to_json(conversation(word))
    text.encode()
    once = from_json(text, MemoryStore())
    assert from_json(to_json(once), MemoryStore()) == once


def test_a_pair_in_two_halves_comes_back_as_one_character() -> None:
    assert from_json(to_json(conversation("\ud83d\ude00")), MemoryStore()) == conversation("😀")


@pytest.mark.parametrize(
    "text",
    [
        '[{"role":"user","content":"caf\\ud83d!"}]',
        '[{"role":"user","content":["caf\\ud83d!"]}]',
        '[{"role":"user","content":[{"type":"text","text":"caf\\ud83d!"}]}]',
        '[{"role":"user","content":"caf\ud83d!"}]',
        b'[{"role":"user","content":"caf\\ud83d!"}]',
        b'[{"role":"user","content":"caf\xed\xa0\xbd!"}]',
    ],
    ids=["escaped", "escaped-in-list", "escaped-in-block", "raw", "escaped-bytes", "encoded-bytes"],
)
def test_json_that_others_wrote_with_a_lone_surrogate_is_read(text: str | bytes) -> None:
    assert from_json(text, MemoryStore()) == [Message.user(GOOD)]


@pytest.mark.parametrize("content", [BAD, [BAD], [{"type": "text", "text": BAD}]])
def test_dicts_with_a_lone_surrogate_are_cleaned_when_they_are_read(content: Any) -> None:
    assert read_conversation([{"role": "user", "content": content}]) == [Message.user(GOOD)]
    assert read_tool_result({"tool_use_id": BAD, "content": content}) == ToolResultBlock(GOOD, (TextBlock(GOOD),))


def test_a_file_whose_name_is_no_text_can_be_attached_saved_and_loaded(tmp_path: Path) -> None:
    path = tmp_path / "report-\udcff.txt"
    try:
        path.write_bytes(b"x")
    except (OSError, UnicodeError):
        pytest.skip("this file system takes only names that are text")
    here, there = FolderStore(tmp_path / "here"), FolderStore(tmp_path / "there")
    file = here.put(Attachment.from_path(path))
    ((message,), text) = (from_json(to_json([Message.user(file)], here), there), to_json([Message.user(file)]))
    assert json.loads(text)[0]["content"][0]["name"] == "report-\ufffd.txt"
    assert isinstance(message.content[0], AttachmentBlock)
    assert there.read(message.content[0]) == b"x"


def test_a_missing_file_whose_name_is_no_text_is_an_ordinary_error(tmp_path: Path) -> None:
    with pytest.raises(AttachmentError, match="cannot be read"):
        Attachment.from_path(tmp_path / "\udcff").open()
    with pytest.raises(AttachmentError, match="cannot be read"):
        Attachment.from_path(tmp_path / "\ud83d").open()


def test_data_that_is_no_base64_because_of_a_surrogate_does_not_load() -> None:
    block = {"type": "attachment", "sha256": "a" * 64, "mime_type": "text/plain", "size": 1, "data": "\ud83d"}
    with pytest.raises(ConversationError, match="not base64"):
        from_json(json.dumps([{"role": "user", "content": [block]}]), MemoryStore())


@pytest.mark.parametrize(
    "step", [BAD, ThinkingBlock(BAD), call("read", path=BAD, **{BAD: [BAD]}), malformed_call("read", BAD)]
)
async def test_a_scripted_model_replies_with_a_surrogate_and_its_deltas_can_be_sent_on(step: Step) -> None:
    *deltas, reply = [item async for item in ScriptedModel([step]).stream(Request([], MemoryStore()))]
    assert isinstance(reply, Reply)
    assert r"\ud83d" in ascii(reply.message), "a test of a surrogate needs one"
    assert len(deltas) == 1
    assert "caf\ufffd!" in msgspec.json.encode(deltas).decode()


def test_two_keys_that_differ_only_in_a_surrogate_keep_both_their_values() -> None:
    both = {f"a{chr(0xD800 + number)}": number for number in (1, 2)}
    message = Message.assistant(ToolUseBlock("c1", "set", both))
    (loaded,) = from_json(to_json([message]), MemoryStore())
    assert sorted(loaded.tool_calls[0].input.values()) == [1, 2]
