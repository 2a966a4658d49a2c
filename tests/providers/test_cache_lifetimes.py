"""How long providers keep the prompt cache: what is asked for, and what it costs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from outrider import Agent, Message, Usage
from outrider.conversation.store import MemoryStore
from outrider.providers.base import CacheLifetime, ModelSettings, Request, ToolSpec
from outrider.providers.catalogue.prices import Rates, rates_of, with_cost
from outrider.providers.resolution import resolve
from outrider.providers.streams.anthropic_stream import _usage

TOOL = ToolSpec("look", "Look.", {"type": "object"})


def rendered(model: str, cache: CacheLifetime | None, memory: dict[str, Any] | None = None) -> dict[str, Any]:
    provider: Any = resolve(model)
    settings = ModelSettings(cache=cache)
    memory = {} if memory is None else memory
    request = Request((Message.user("Hi."),), MemoryStore(), "Be brief.", (TOOL,), "", memory, settings)
    body: dict[str, Any] = msgspec.json.decode(bytes(provider.render(request)))
    return body


def test_anthropic_is_asked_for_an_hour_at_every_mark() -> None:
    memory: dict[str, Any] = {}
    for cache, mark in ((None, {"type": "ephemeral"}), ("1h", {"type": "ephemeral", "ttl": "1h"})):
        body = rendered("anthropic/claude-sonnet-4-5", cache, memory)  # type: ignore[arg-type]
        marks = body["cache_control"], body["system"][0]["cache_control"], body["tools"][-1]["cache_control"]
        assert marks == (mark, mark, mark), "a longer time after a shorter one would be refused"


@pytest.mark.parametrize(
    ("model", "kept"), [("gpt-5.1", "24h"), ("gpt-5.5", "24h"), ("gpt-4.1", "24h"), ("gpt-5.6", None), ("gpt-4o", None)]
)
def test_openai_is_asked_where_the_model_can(model: str, kept: str | None) -> None:
    assert rendered(f"openai/{model}", "1h").get("prompt_cache_retention") == kept
    assert "prompt_cache_retention" not in rendered(f"openai/{model}", None)


def test_another_lifetime_is_refused() -> None:
    with pytest.raises(ValueError, match="it must be 5m or 1h"):
        Agent("demo", cache="1d")  # type: ignore[arg-type]


def test_writing_for_an_hour_costs_twice_the_input() -> None:
    counts = {"input_tokens": 10, "cache_creation_input_tokens": 1_000}
    split = counts | {"cache_creation": {"ephemeral_5m_input_tokens": 400, "ephemeral_1h_input_tokens": 600}}
    usage = _usage(split)
    assert (usage.cache_write_tokens, usage.cache_write_1h_tokens) == (1_000, 600)
    fresh = rates_of("anthropic", "claude-sonnet-4-5")[-1].fresh
    cost = with_cost("anthropic", "claude-sonnet-4-5", usage).cost
    assert cost == pytest.approx(fresh * (10 + 400 * 1.25 + 600 * 2))
    assert with_cost("anthropic", "claude-sonnet-4-5", _usage(counts)).cost == pytest.approx(
        fresh * (10 + 1_000 * 1.25)
    )


def test_the_listed_price_of_writing_for_an_hour_counts_and_else_twice_the_input() -> None:
    assert rates_of("anthropic", "claude-sonnet-4-5")[-1].listed_1h == pytest.approx(6 / 1e6)
    listed = Rates(-1, 1.0, 0.1, 1.25, 5.0, 5.0, listed_1h=1.5)
    assert [each.written_1h for each in (listed, Rates(-1, 1.0, 0.1, 1.25, 5.0, 5.0))] == [1.5, 2.0]


def test_the_share_of_the_cache() -> None:
    assert Usage().cached_share is None
    assert (Usage(300, 1, 100) + Usage(100, 1, 100)).cached_share == 0.5
    assert dict(Usage(3, 0, 1))["cached_share"] == 0.3333
