"""Whatever an adapter does, a run ends with a status and an intact conversation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from outrider.conversation.messages import Message
from outrider.conversation.usage import Usage
from outrider.providers.base import Reply, Request
from outrider.runtime.agent import Agent
from outrider.runtime.events import RunFinished, TextDelta
from outrider.runtime.retry import Retry
from outrider.runtime.session import Session

GOOD = Reply(Message.assistant("ok"))


class Adapter:
    """Yields what it is given, and raises what is an exception."""

    name = "adapter"

    def __init__(self, *items: Any) -> None:
        self._items = items

    async def stream(self, request: Request) -> AsyncIterator[Any]:
        for item in self._items:
            if isinstance(item, BaseException):
                raise item
            yield item


class NoStream:
    name = "adapter"

    def stream(self, request: Request) -> Any:
        return ["not", "async"]


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([GOOD, GOOD], "sent more after its reply: Reply"),
        ([GOOD, TextDelta("late")], "sent more after its reply: TextDelta"),
        (["text"], "neither a delta nor a reply: str"),
        ([{"type": "text"}], "neither a delta nor a reply: dict"),
        ([RunFinished("done", 1, Usage())], "neither a delta nor a reply: RunFinished"),
        ([Reply("text")], "without a Message"),  # type: ignore[arg-type]
        ([Reply(Message.assistant("x"), usage=None)], "without a Usage"),  # type: ignore[arg-type]
        ([asyncio.CancelledError()], "CancelledError"),
        ([SystemExit(3)], "SystemExit"),
        ([KeyError("choices")], "KeyError: 'choices'"),
        ([StopAsyncIteration()], "StopAsyncIteration"),
        ([], "ended before it was complete"),
    ],
)
async def test_it_is_an_error_that_names_the_fault(items: list[Any], said: str) -> None:
    events: list[Any] = []
    session = Session(Agent(model=Adapter(*items), retry=Retry(seconds=0)), observer=events.append)
    result = await session.run("go")
    assert result.status == "error"
    assert said in result.error
    assert result.conversation == [Message.user("go")]
    assert [type(event).__name__ for event in events].count("RunFinished") == 1


async def test_so_is_a_stream_that_is_none() -> None:
    result = await Session(Agent(model=NoStream(), retry=Retry(seconds=0))).run("go")
    assert result.status == "error"


async def test_a_reply_of_the_wrong_role_counts_as_the_models() -> None:
    result = await Session(Agent(model=Adapter(Reply(Message.user("hello"))))).run("go")
    assert result.conversation[1] == Message.assistant("hello")
