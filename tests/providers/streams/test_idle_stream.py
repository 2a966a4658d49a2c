"""A stream that stays open and brings nothing new: keep-alives are no progress, and all else is."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from outrider.conversation.messages import Message
from outrider.conversation.store import MemoryStore
from outrider.errors import IncompleteStreamError
from outrider.providers.base import Reply, Request
from outrider.providers.streams import stream
from outrider.runtime.retry import Retry
from tests.adapters import ONE_EACH, Case, each
from tests.modelserver import Endless, ModelServer
from tests.providers.test_faults import Talk
from tests.streams import Answer, stream_of

ANSWER = Answer("All is well.", thinking="Let me see.")
EMPTY: dict[str, Any] = {"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": None}]}
KEEP_ALIVES = {
    "anthropic": b'event: ping\ndata: {"type": "ping"}\n\n',
    "openai": b'event: keepalive\ndata: {"type": "keepalive", "sequence_number": 7}\n\n',
    "openai-chat": b"data: %b\n\n" % msgspec.json.encode(EMPTY),
    "gemini": b": keep-alive\r\n\r\n",
}


class Slow:
    """A response whose pieces come at moments of a clock that nobody waits for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(stream, "monotonic", lambda: self.now)

    async def ask(self, case: Case, *pieces: tuple[float, bytes]) -> Reply:
        """Ask for a reply that comes in these pieces, each after some seconds."""
        model = case.adapter("http://127.0.0.1:9", key="k")
        model._response = lambda *_: self._send(pieces)  # type: ignore[method-assign]
        items = [item async for item in model.stream(Request([Message.user("Hello")], MemoryStore()))]
        assert isinstance(items[-1], Reply)
        return items[-1]

    async def _send(self, pieces: tuple[tuple[float, bytes], ...]) -> AsyncIterator[bytes]:
        for seconds, piece in pieces:
            self.now += seconds
            yield piece


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    return Slow(monkeypatch)


@each(*ONE_EACH)
async def test_keep_alives_alone_are_a_broken_stream(case: Case, slow: Slow) -> None:
    pings = [(10.0, KEEP_ALIVES[case.api])] * 1000
    with pytest.raises(IncompleteStreamError, match="nothing new for 600 s") as raised:
        await slow.ask(case, *pings)
    assert raised.value.retryable
    assert 600 < slow.now <= 630


@each(*ONE_EACH)
async def test_a_model_may_think_for_minutes_before_each_part(case: Case, slow: Slow) -> None:
    pings = [(100.0, KEEP_ALIVES[case.api])] * 5
    parts = [event for event in stream_of(case.api, ANSWER) if b'"ping"' not in event]
    pieces = [piece for part in parts for piece in (*pings, (50.0, part))]
    assert (await slow.ask(case, *pieces)).text == ANSWER.text
    assert slow.now > 1200


@each(*ONE_EACH)
async def test_the_time_can_be_set_and_holds_without_any_bytes(case: Case) -> None:
    async with ModelServer([Endless(silent=True), Endless(silent=False)]) as server:
        talk = Talk(case, server, retry=Retry(seconds=0, idle_seconds=0.2))
        for _ in range(2):
            assert await talk.says() == "error"
            assert re.search(r"took too long|nothing new for 0\.2 s", str(talk.events[-1]))
        await asyncio.wait_for(server.left.wait(), 60)
