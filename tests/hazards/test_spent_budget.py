"""A run whose requests fail, or pause, stops at its limits on tokens and cost, and not only between two turns."""

from __future__ import annotations

from typing import Any

import pytest

from outrider import Agent, Limits, Message, Session, Usage
from outrider.errors import IncompleteStreamError, ProviderError
from outrider.log.log import Log
from outrider.providers.base import Reply, StopReason
from outrider.runtime.events import Event, Retrying, RunFinished
from outrider.testing import ScriptedModel
from tests.adapters import ONE_EACH
from tests.modelserver import Answer, Broken, ModelServer

ANTHROPIC = ONE_EACH[0]


def broken(tokens: int, *, retryable: bool = True, **usage: Any) -> ProviderError:
    error = IncompleteStreamError("the stream broke", retryable=retryable)
    error.usage = Usage(tokens, 0, **usage)
    return error


@pytest.mark.parametrize(
    ("limits", "status"),
    [(Limits(max_total_tokens=100), "max_total_tokens"), (Limits(max_cost=0.5), "max_cost")],
)
async def test_a_failed_attempt_that_uses_the_budget_up_is_the_last(limits: Limits, status: str) -> None:
    model = ScriptedModel([broken(100, cost=0.5), "Too late."])
    seen: list[Event] = []
    session = Session(Agent(model, limits=limits), observer=seen.append)
    result = await session.run("Hello")
    assert (result.status, result.usage.total_tokens, len(model.requests)) == (status, 100, 1)
    assert not any(isinstance(event, Retrying) for event in seen)
    assert isinstance(seen[-1], RunFinished)
    assert (await session.run("Again")).text == "Too late.", "the next run has its own budget"


async def test_within_the_budget_it_is_repeated(tmp_path: Any) -> None:
    model = ScriptedModel([broken(99), "In time."])
    with Log(tmp_path / "log") as log:
        async with Session.open(log, agent=Agent(model, limits=Limits(max_total_tokens=100))) as session:
            assert (await session.run("Hello")).text == "In time."


async def test_an_error_that_is_not_repeated_stays_the_error() -> None:
    model = ScriptedModel([broken(100, retryable=False)])
    result = await Session(Agent(model, limits=Limits(max_total_tokens=100))).run("Hello")
    assert (result.status, result.error) == ("error", "the stream broke")


async def test_a_pause_is_not_continued_beyond_the_budget() -> None:
    pause = Reply(Message.assistant("Searching"), StopReason.PAUSE, Usage(60))
    model = ScriptedModel([pause, pause, "Too late."])
    result = await Session(Agent(model, limits=Limits(max_total_tokens=100))).run("Hello")
    assert (result.status, len(model.requests)) == ("max_total_tokens", 2)


async def test_the_cost_of_a_real_stream_that_breaks_counts() -> None:
    steps = [Broken(Answer("Never whole."), "first delta", "close"), Answer("Too late.")]
    async with ModelServer(steps) as server:
        model = type(ANTHROPIC.adapter())(ANTHROPIC.model, base_url=server.url, api_key="k")
        result = await Session(Agent(model, limits=Limits(max_cost=0.000_000_1))).run("Hello")
    assert (result.status, len(server.requests)) == ("max_cost", 1)
    assert result.usage.cost
