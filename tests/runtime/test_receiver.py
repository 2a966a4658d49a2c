"""One reply, from providers that keep the contract in unusual ways."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from outrider.conversation.messages import Message, TextBlock, ToolUseBlock
from outrider.conversation.store import MemoryStore
from outrider.conversation.usage import Usage
from outrider.errors import IncompleteStreamError, ProviderError
from outrider.log.entries import AttemptFailed
from outrider.providers.base import Reply, Request, StopReason
from outrider.runtime.events import Event, Notice, ReplyDiscarded, TextDelta, ThinkingDelta
from outrider.runtime.receiver import DEEPEST_ARGUMENTS, Receiver
from outrider.runtime.retry import Retry


class Items:
    """A stream that is an iterator and nothing more: it cannot be closed."""

    def __init__(self, *items: Any) -> None:
        self._items = iter(items)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        for item in self._items:
            return item
        raise StopAsyncIteration


class Playing:
    """A provider that sends what it is given."""

    name = "playing"

    def __init__(self, *items: Any) -> None:
        self._items = items

    def stream(self, request: Request) -> AsyncIterator[Any]:
        return Items(*self._items)


async def record(failure: AttemptFailed) -> None:
    """Store nothing: these replies come at the first attempt, or never."""


async def received(*items: Any) -> tuple[Reply, list[Event], Receiver]:
    events: list[Event] = []
    receiver = Receiver(Playing(*items), events.append, Retry(seconds=0), record)
    return await receiver.receive(Request((Message.user("Hello"),), MemoryStore())), events, receiver


def reply(message: Any, usage: Any = None) -> Reply:
    return Reply(message=message, usage=usage or Usage(1, 1), stop_reason=StopReason.END)


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"x": value}
    return value


async def test_a_stream_that_cannot_be_closed_is_received() -> None:
    sent = reply(Message.assistant("Hello."))
    got, events, receiver = await received(Notice("busy"), TextDelta("Hello."), sent)
    assert got is sent
    assert events == [Notice("busy"), TextDelta("Hello.")]
    assert receiver.words == "Hello."


@pytest.mark.parametrize(("sent", "discarded"), [(Notice("busy"), 0), (TextDelta("Hel"), 1), (ThinkingDelta("Hm"), 1)])
async def test_only_what_was_shown_of_a_broken_reply_is_discarded(sent: Event, discarded: int) -> None:
    events: list[Event] = []
    receiver = Receiver(Playing(sent), events.append, Retry(seconds=0), record)
    with pytest.raises(IncompleteStreamError, match="playing ended before it was complete"):
        await receiver.receive(Request((Message.user("Hello"),), MemoryStore()))
    assert [type(event) for event in events] == [type(sent), *[ReplyDiscarded] * discarded]
    assert receiver.words == ""


async def test_arguments_that_are_nested_too_deeply_are_replaced_and_the_rest_is_kept() -> None:
    deep = ToolUseBlock("c1", "look", nested(DEEPEST_ARGUMENTS + 1))
    fine = ToolUseBlock("c2", "look", nested(3))
    got, _, _ = await received(reply(Message.assistant("I look.", deep, fine)))
    words, first, second = got.message.content
    assert words == TextBlock("I look.")
    assert isinstance(first, ToolUseBlock)
    assert (first.id, first.input, first.invalid_input) == ("c1", {}, "(nested too deeply to be shown)")
    assert second == fine


async def test_counts_that_are_no_whole_numbers_become_them() -> None:
    got, _, _ = await received(reply(Message.assistant("Hello."), Usage(3.0, 2.0, cost=0.5)))  # type: ignore[arg-type]
    assert (got.usage.input_tokens, got.usage.output_tokens, got.usage.cost) == (3, 2, 0.5)
    assert type(got.usage.input_tokens) is int


@pytest.mark.parametrize("message", [None, "Hello."])
async def test_a_reply_without_a_message_is_an_error_of_the_provider(message: Any) -> None:
    with pytest.raises(ProviderError, match="playing sent a reply without a Message"):
        await received(reply(message))
