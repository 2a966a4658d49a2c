"""A reply that is cancelled has cost something: it is counted as far as the API has told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from outrider import Agent, Log, Session
from outrider.conversation.usage import Usage
from outrider.providers.adapters.anthropic import Anthropic
from outrider.runtime.events import Event, MessageAdded, ReplyDiscarded
from tests.providers.canned import events

START = {"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 1000, "output_tokens": 3}}}
TEXT = [
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Once"}},
]
SPENT = Usage(1000, 3, cost=0.003045)


class Stalled:
    """A transport whose response stops in the middle."""

    def __init__(self, *sent: Any) -> None:
        self._sent = sent
        self.stalls = asyncio.Event()

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, explain: Callable[..., Exception], idle: float
    ) -> AsyncIterator[bytes]:
        yield events(*self._sent, done=False)
        self.stalls.set()
        await asyncio.Event().wait()


async def cancelled(folder: Path, *sent: Any) -> tuple[Session, list[Event]]:
    """A session whose first reply was cancelled after these events, and what its observers saw."""
    model = Anthropic("claude-sonnet-4-5", api_key="key")
    transport = model._transport = Stalled(*sent)  # type: ignore[assignment]
    seen: list[Event] = []
    with Log(folder) as log, Session.open(log, agent=Agent(model)) as session:
        session.observe(seen.append)
        run = asyncio.create_task(session.run("Tell me a story."))
        await transport.stalls.wait()
        run.cancel()
        await asyncio.wait([run])
    return session, seen


@pytest.mark.parametrize("sent", [(START,), (START, *TEXT)], ids=["before the text", "in the text"])
async def test_a_cancelled_reply_is_counted(tmp_path: Path, sent: tuple[Any, ...]) -> None:
    session, seen = await cancelled(tmp_path, *sent)
    assert session.usage == SPENT
    told = [each.usage for each in seen if isinstance(each, MessageAdded | ReplyDiscarded) and each.usage]
    assert told == [SPENT]
    with Log(tmp_path) as log:
        [summary] = log.sessions()
        assert summary.usage == SPENT
        with Session.open(log, session.id) as resumed:
            assert resumed.total_usage == SPENT


async def test_nothing_is_counted_that_the_api_has_not_told(tmp_path: Path) -> None:
    session, seen = await cancelled(tmp_path, *TEXT)
    assert session.usage == Usage()
    assert not any(each.usage for each in seen if isinstance(each, MessageAdded | ReplyDiscarded))
