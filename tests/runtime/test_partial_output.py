"""Observers see a typed answer grow while it streams, in both forms of structured output."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest

from outrider import Agent, Message, ProviderError, Usage
from outrider.events import Event, PartialOutput, ReplyDiscarded, RunFinished, SubagentEvent
from outrider.providers.base import Reply, Request, StopReason
from outrider.providers.deltas import Delta, TextDelta, ToolCallDelta
from outrider.runtime.structured_output import TOOL
from outrider.subagents import Profile, with_subagents
from outrider.testing import call
from tests.adapters import ONE_EACH, Case, each
from tests.modelserver import ModelServer
from tests.runtime.test_native_output import agent
from tests.streams import Answer


class Person(msgspec.Struct):
    name: str
    tags: list[str] = []


ADA: dict[str, Any] = {
    "name": "Augusta Ada King, Countess of Lovelace",
    "tags": [f"tag {number}" for number in range(60)],
}


class Streamed:
    """A model that streams its replies in pieces: text, or the arguments of the tool for reports."""

    def __init__(self, *replies: str | ProviderError, native: bool, size: int = 7) -> None:
        self.name, self.window = "streamed", None
        self._replies, self._native, self._size = list(replies), native, size

    def enforces(self, schema: Any, *, with_tools: bool) -> bool:
        return self._native

    async def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        text = self._replies.pop(0)
        fails, text = (text, '{"name": "Nob') if isinstance(text, ProviderError) else (None, text)
        for start in range(0, len(text), self._size):
            piece = text[start : start + self._size]
            yield TextDelta(piece) if self._native else ToolCallDelta("c1", TOOL, piece)
        if fails:
            raise fails
        block = msgspec.structs.replace(call(TOOL, **json.loads(text)), id="c1")
        stop = StopReason.END if self._native else StopReason.TOOL_USE
        yield Reply(Message.assistant(text if self._native else block), stop, Usage())


def grown(events: Sequence[Event]) -> list[Any]:
    return [event.data for event in events if isinstance(event, PartialOutput)]


def is_growing(seen: Sequence[dict[str, Any]]) -> bool:
    return all(
        len(one) <= len(two)
        and two["name"].startswith(one["name"])
        and two.get("tags", [])[: max(0, len(one.get("tags", [])) - 1)] == one.get("tags", [])[:-1]
        for one, two in zip(seen, [*seen[1:], ADA], strict=True)
    )


@pytest.mark.parametrize("native", [True, False])
async def test_the_answer_grows(native: bool) -> None:
    model = Streamed(json.dumps(ADA, indent=30), native=native)
    events = [event async for event in Agent(model).stream("Who?", output=Person)]
    seen = [data for data in grown(events) if data]
    assert len(seen) > 8
    assert seen[0]["name"] != ADA["name"], "the first text is shown while it comes"
    assert is_growing(seen)
    assert len(seen[-1]["tags"]) > 50, "the last one is near the end"
    end = events[-1]
    assert isinstance(end, RunFinished)
    assert end.structured_output == ADA
    assert len({json.dumps(each) for each in seen}) == len(seen), "each says something new"


@pytest.mark.parametrize("native", [True, False])
async def test_data_that_is_no_object_is_unwrapped(native: bool) -> None:
    model = Streamed(json.dumps({"result": list(range(100, 130))}), native=native, size=3)
    events = [event async for event in Agent(model).stream("Which?", output=list[int])]
    seen = grown(events)
    assert [] not in seen[1:]
    assert len(seen) > 1
    assert all(each == list(range(100, 100 + len(each))) for each in seen), "no number is shown before it is whole"


async def test_a_discarded_reply_begins_anew() -> None:
    model = Streamed(ProviderError("torn", retryable=True, retry_after=0.0), json.dumps(ADA), native=True, size=100)
    events = [event async for event in Agent(model).stream("Who?", output=Person)]
    torn = next(place for place, event in enumerate(events) if isinstance(event, ReplyDiscarded))
    assert grown(events[:torn]) == [{"name": "Nob"}]
    assert is_growing(grown(events[torn:]))


async def test_other_text_and_other_calls_are_no_answer() -> None:
    model = Streamed("Let me see: {1} or {2}.", "[]", json.dumps(ADA), native=True)
    session = Agent(model).session(observer=(seen := list[Event]()).append)
    await session.run("Say something.", output=None)
    assert grown(seen) == []
    with_tool = Streamed(json.dumps({"name": "x"}), native=False)
    events = [event async for event in Agent(with_tool).stream("Report")]
    assert grown(events) == [], "a run without output has none"


async def test_the_answer_of_a_subagent_grows_for_the_parents_observers() -> None:
    class Both:
        name, window = "both", None

        def __init__(self) -> None:
            self._child = Streamed(json.dumps(ADA), native=False)

        def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
            is_child = any(tool.name == TOOL for tool in request.tools)
            return self._child.stream(request) if is_child else self._own(request)

        async def _own(self, request: Request) -> AsyncIterator[Delta | Reply]:
            block = msgspec.structs.replace(call("Task", subagent_type="Poet", description="d", prompt="p"), id="t1")
            is_done = any(message.tool_results for message in request.messages)
            yield Reply(Message.assistant("Done." if is_done else block), StopReason.END, Usage())

    profile = Profile(name="Poet", description="Writes.", output=Person)
    team = with_subagents(Agent(Both()), [profile])
    events = [event async for event in team.stream("Go")]
    inner = [event.event for event in events if isinstance(event, SubagentEvent)]
    assert is_growing([data for data in grown(inner) if data])


@each(*ONE_EACH)
async def test_each_api_shows_it(case: Case) -> None:
    async with ModelServer([Answer(json.dumps(ADA))]) as server:
        events = [event async for event in agent(case, server).stream("Who?", output=Person)]
    seen = grown(events)
    assert seen
    assert is_growing([data for data in seen if data])
