"""The request of a turn: the exact one, and of a long one the same messages in pages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from outrider.cli.session_format import context_lines
from outrider.coding import sentences, stored_request
from outrider.coding.stored_request import session_request
from outrider.conversation.messages import Message
from outrider.conversation.usage import Usage
from outrider.log.entries import MessageEntry, Requested
from outrider.log.log import Log
from outrider.providers.resolution import resolve
from outrider.sync import default_log
from outrider.web.api import turn_request
from tests.log.test_replay_end import exchange, written

MODELS = {"anthropic/claude-opus-5-5": "messages", "openai/gpt-5": "input", "gemini/gemini-3-pro": "contents"}


def whole(log: Log, name: str, seq: int, model: str) -> Any:
    provider: Any = resolve(model)
    return json.loads(provider.render(session_request(log, name, model, reply=seq)))


@pytest.mark.parametrize(("model", "field"), MODELS.items())
def test_the_pages_of_a_long_request_have_all_its_messages(
    model: str, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_request, "MOST_ENTRIES", 20)
    with default_log() as log:
        name = written(log, [entry for number in range(12) for entry in exchange(number)])
        seq = log.session(name).last
        expected = whole(log, name, seq, model)
        items: list[Any] = []
        before: int | None = None
        count = 0
        while count == 0 or before:
            page = turn_request(log, name, seq, model, before)
            body, before = json.loads(page.body), page.earlier
            items = body.pop(field) + items
            count += 1
            assert body == {name: value for name, value in expected.items() if name != field}
        assert count >= 3
        assert items == expected[field]


def test_a_request_that_is_not_long_is_one_page() -> None:
    with default_log() as log:
        name = written(log, [MessageEntry(Message.user("Hello?")), MessageEntry(Message.assistant("Hello."))])
        model = "anthropic/claude-opus-5-5"
        found = turn_request(log, name, 3, model)
        assert json.loads(found.body) == whole(log, name, 3, model)
        assert found.earlier is None


def test_a_request_that_lost_its_cache_says_why() -> None:
    model = "anthropic/claude-sonnet-4-5"
    replies = [
        MessageEntry(Message.assistant("Yes."), usage, "end", model)
        for usage in (Usage(20_000, 1, 0, 20_000), Usage(21_000, 1, 0, 21_000))
    ]
    asked = MessageEntry(Message.user("Really?"))
    with default_log() as log:
        name = written(log, [asked, Requested(system="a"), replies[0], asked, Requested(system="b"), replies[1]])
        last = log.session(name).last
        why = "20k cached tokens were paid again (+$0.0690): the system prompt changed"
        assert turn_request(log, name, last, model).lost == why
        assert turn_request(log, name, last - 3, model).lost == ""
        assert sentences.cache_lines(log, name, "") == [f"The newest request: {why}."]
        assert sentences.cache_lines(log, name, "turns")[1:] == [f"turn 2: {why}"]
        assert any("the last:" in line for line in context_lines(log, log.session(name)))
