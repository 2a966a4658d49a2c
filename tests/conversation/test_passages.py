"""The searchable parts of a conversation, and what a query shows of them."""

from __future__ import annotations

from outrider.conversation.messages import (
    Message,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from outrider.conversation.passages import PassageReader, SearchQuery, passages_of


def test_calls_of_the_api_and_arguments_that_are_no_json_are_searchable() -> None:
    messages = [
        Message.assistant(
            ServerToolUseBlock("s1", "web_search", {"query": "zebra"}),
            ServerToolResultBlock("s1", "A zebra has stripes."),
            ToolUseBlock("c1", "Read", {}, '{"path": "half'),
        )
    ]
    assert [each.text for each in passages_of(messages)] == [
        'web_search {"query":"zebra"}\nA zebra has stripes.',
        'Read {"path": "half',
    ]


def test_a_result_without_its_call_is_no_passage() -> None:
    reader = PassageReader()
    assert list(reader.result(ToolResultBlock("lost", (TextBlock("found"),)))) == []
    assert reader.count == 0


def test_a_text_without_the_words_is_shown_from_its_beginning() -> None:
    assert SearchQuery("zebra").snippet("A horse has none.") == "A horse has none."
