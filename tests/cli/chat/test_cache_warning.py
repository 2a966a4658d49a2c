"""The line in the chat before the cache of a long conversation ends."""

from __future__ import annotations

import asyncio

import pytest

from outrider import Agent, Message, Session
from outrider.cli.chat import status_line
from outrider.cli.chat.status_line import LEAST_TOKENS, CacheWarning, warning
from outrider.testing import ScriptedModel

LONG = "word " * LEAST_TOKENS


class Cached(ScriptedModel):
    """A model whose provider keeps caches for a moment."""

    def cache_seconds(self, cache: str | None) -> float:
        return 60.0 if cache == "1h" else 0.0


def session(text: str, cache: str | None = "1h") -> Session:
    agent = Agent(Cached([]), cache=cache)  # type: ignore[arg-type]
    return Session(agent, [Message.user(text), Message.assistant("Yes.")])


async def told_about(talk: Session, monkeypatch: pytest.MonkeyPatch, *, stops: bool = False) -> list[str]:
    monkeypatch.setattr(status_line, "LEAD_SECONDS", 59.9)
    told: list[str] = []
    ends = asyncio.Event()
    warner = CacheWarning(lambda text: (told.append(text), ends.set())[0])
    warner.start(talk)
    warner.reply_came()
    warner.start(talk)
    if stops:
        warner.stop()
    if warner._timer:
        await asyncio.wait_for(ends.wait(), 10)
    return told


async def test_a_long_conversation_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    [told] = await told_about(session(LONG), monkeypatch)
    assert told.startswith("In a minute the cache of these ")
    assert "set cache 1h" not in told, "it is kept as long as it can be"


async def test_a_short_one_or_one_that_goes_on_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await told_about(session("Hi."), monkeypatch) == []
    assert await told_about(session(LONG), monkeypatch, stops=True) == []
    assert await told_about(session(LONG, None), monkeypatch) == [], "it has ended already"
    assert await told_about(Session(Agent("demo"), [Message.user(LONG), Message.assistant("Yes.")]), monkeypatch) == []


def test_what_it_costs_is_said() -> None:
    text = warning("anthropic/claude-sonnet-4-5", 100_000)
    assert "the next message then costs about $0.3450 more" in text
    assert text.endswith("To keep it longer: outrider config set cache 1h")
