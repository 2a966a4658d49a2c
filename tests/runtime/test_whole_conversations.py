"""think() and compaction=None send the whole conversation, or say that it is too long."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from outrider import Agent, run, think
from outrider.conversation.messages import Message, ToolResultBlock, ToolUseBlock
from outrider.errors import ContextExceededError
from outrider.testing import ScriptedModel

WINDOW = 8_000


def long_conversation(turns: int) -> list[Message]:
    """A conversation of about 520 tokens a turn, with results that a session would clear."""
    messages = [Message.user("Count the files.")]
    for n in range(turns):
        messages.append(Message.assistant(ToolUseBlock(f"c{n}", "look", {"number": n})))
        messages.append(Message.user(ToolResultBlock(f"c{n}", Message.user("words of it " * 170).content)))  # type: ignore[arg-type]
    return [*messages, Message.assistant("Counted.")]


def look(number: int) -> str:
    """Look at a file."""
    return str(number)


@pytest.mark.parametrize("options", [{}, {"tools": [look]}])
def test_think_sends_everything_in_one_request_and_offers_no_tool_of_its_own(options: dict[str, Any]) -> None:
    model = ScriptedModel(["Thirteen."] * 9, window=WINDOW)
    given = long_conversation(13)
    turn = think("How many?", conversation=given, model=model, **options)
    (request,) = model.requests
    assert turn.content == "Thirteen."
    assert list(request.messages) == [*given, Message.user("How many?")]
    assert [spec.name for spec in request.tools] == [tool.__name__ for tool in options.get("tools", [])]


def test_run_shortens_the_same_conversation_unless_that_is_turned_off() -> None:
    prompted = [*long_conversation(13), Message.user("How many?")]
    model = ScriptedModel(["Thirteen."], window=WINDOW)
    assert run(prompted, model=model).text == "Thirteen."
    assert list(model.requests[0].messages) != prompted, "old results are cleared"
    whole = ScriptedModel(["Thirteen."], window=WINDOW)
    assert run(prompted, model=whole, compaction=None).text == "Thirteen."
    assert list(whole.requests[0].messages) == prompted


def test_a_conversation_that_is_longer_than_the_window_is_an_error_that_says_what_to_do() -> None:
    model = ScriptedModel(["Never."], window=WINDOW)
    with pytest.raises(ContextExceededError, match=r"takes 8,000: it is sent whole.*use run\(\) or a Session"):
        think("How many?", conversation=long_conversation(40), model=model)
    assert model.requests == []


def test_what_the_api_finds_too_long_is_not_sent_again() -> None:
    model = ScriptedModel([ContextExceededError("prompt is too long"), "Never."], window=WINDOW)
    with pytest.raises(ContextExceededError, match="prompt is too long"):
        think("How many?", conversation=long_conversation(3), model=model)
    assert len(model.requests) == 1


def test_a_session_without_compaction_compacts_when_it_is_asked_to() -> None:
    model = ScriptedModel(["## Goal\nCount."], window=WINDOW)
    session = Agent(model, compaction=None).session(long_conversation(13))
    assert asyncio.run(session.compact()).summary
