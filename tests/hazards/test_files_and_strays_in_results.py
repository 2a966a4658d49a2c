"""Results that the caller gives: files in them are stored, and results without a call are refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from outrider import Agent, Attachment, Session, dumps, loads, run, think
from outrider.conversation.messages import AttachmentBlock, Message, TextBlock, ToolResultBlock, ToolUseBlock
from outrider.conversation.store import MemoryStore
from outrider.errors import ConversationError
from outrider.testing import ScriptedModel

DATA = b"a,b\n1,2\n"
FILE = Attachment(DATA, "text/csv", "table.csv")
ASKED = [Message.user("Look."), Message.assistant(ToolUseBlock("c1", "look", {}))]
STRAY = {"type": "tool_result", "tool_use_id": "nobody", "content": "secret"}


def block(*content: Any) -> ToolResultBlock:
    return ToolResultBlock("c1", content)


@pytest.mark.parametrize(
    "result",
    [
        block(TextBlock("Here."), FILE),
        block("Here.", FILE),
        {"tool_use_id": "c1", "content": ["Here.", FILE]},
    ],
)
def test_a_file_in_a_result_is_stored_and_the_conversation_can_be_dumped_and_loaded(result: Any) -> None:
    store = MemoryStore()
    turn = think("", conversation=ASKED, tool_results=[result], model=ScriptedModel(["Seen."]), store=store)
    (stored,) = turn.conversation[2].tool_results
    assert stored.text == "Here."
    assert [store.read(file) for file in stored.attachments] == [DATA]
    assert isinstance(stored.content[1], AttachmentBlock)
    assert loads(dumps(turn.conversation, inline=True, store=store), store=MemoryStore()) == turn.conversation


def test_a_file_alone_may_be_the_content() -> None:
    store = MemoryStore()
    result = {"tool_use_id": "c1", "content": FILE}
    turn = think("", conversation=ASKED, tool_results=[result], model=ScriptedModel(["Seen."]), store=store)
    assert [file.name for file in turn.conversation[2].tool_results[0].attachments] == ["table.csv"]


def test_a_file_in_a_given_message_is_refused_with_what_to_do() -> None:
    given = [*ASKED, Message.user(block(TextBlock("Here."), FILE))]
    with pytest.raises(ConversationError, match=r"message 3, block 1, block 2 is an Attachment.*in tool_results"):
        think("Well?", conversation=given, model=ScriptedModel(["Never."]))


@pytest.mark.parametrize("content", ["text", [TextBlock("text")], ("text",)])
def test_other_content_of_a_block_becomes_blocks(content: Any) -> None:
    result = ToolResultBlock("c1", content)
    turn = think("", conversation=ASKED, tool_results=[result], model=ScriptedModel(["Seen."]))
    assert turn.conversation[2].tool_results[0].content == (TextBlock("text"),)
    assert loads(dumps(turn.conversation)) == turn.conversation


@pytest.mark.parametrize(
    "given",
    [
        [{"role": "user", "content": [STRAY, {"type": "text", "text": "Hello"}]}],
        [*ASKED, {"role": "user", "content": [STRAY]}],
        [Message.user(block("early")), *ASKED],
    ],
    ids=["no calls", "another call", "before its call"],
)
def test_a_result_for_a_call_that_no_message_makes_is_refused(given: Any) -> None:
    place = r"message \d has a result for the call '(nobody|c1)', which no message before it makes; begin with"
    with pytest.raises(ConversationError, match=place):
        think("Well?", conversation=given, model=ScriptedModel(["Never."]))
    with pytest.raises(ConversationError, match=place):
        run(given, model=ScriptedModel(["Never."]))
    with pytest.raises(ConversationError, match=place):
        asyncio.run(Session(Agent("demo"), given).run("Well?"))
