"""Our price list finds the models that genai-prices finds, and has its prices."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from math import isclose
from typing import Any
from unittest import mock

import pytest
from genai_prices import types
from genai_prices.data_snapshot import get_snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.conversation.usage import Usage
from outrider.providers.catalogue.price_list import FILE, _models, _providers, find_model
from outrider.providers.catalogue.prices import _OWNERS, context_tokens, with_cost
from tests.lengths import examples

OURS = {theirs: ours for ours, theirs in _OWNERS.items()}
NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)
STEP = timedelta(minutes=15)  # rates are those of the quarter of an hour
COUNTS = {"cached_tokens": 1_009, "cache_write_tokens": 10_007, "reasoning_tokens": 101, "web_searches": 3}
HOUR = "cache_write_1h_mtok"


def texts(clause: Any) -> Iterator[str]:
    """The names, and parts of names, that a clause looks for."""
    for part in getattr(clause, "or_", None) or getattr(clause, "and_", ()):
        yield from texts(part)
    yield from (value for value in vars(clause).values() if isinstance(value, str))


def named(provider: types.Provider, model: types.ModelInfo) -> list[tuple[str, str]]:
    """Names of ours for a model."""
    ours = OURS.get(provider.id)
    names = sorted({model.id, *texts(model.match)})
    return [(ours, name) if ours else ("litellm", f"{provider.id}/{name}") for name in names]


MODELS = [(provider, model) for provider in get_snapshot().providers for model in provider.models]
NAMES = [name for each in MODELS for name in named(*each)]


def assert_same(provider: str, name: str, at: datetime) -> None:
    """Window, tiers and costs are those of genai-prices: just below and above each tier, with tokens of all kinds."""
    try:
        _, model = get_snapshot().find_provider_model(name, None, _OWNERS[provider], None)
    except LookupError:
        assert find_model(_OWNERS[provider], name) is None, (provider, name)
        return
    prices = model.get_prices(at)
    with mock.patch.object(time, "time", at.timestamp):
        assert context_tokens(provider, name) == model.context_window, (provider, name)
        starts = {tier.start for price in vars(prices).values() for tier in getattr(price, "tiers", ())}
        for size in {20_011, *starts, *(start + 1 for start in starts)}:
            long = 503 if getattr(prices, HOUR, None) is not None else 0  # else we guess
            usage = Usage(size, 1_000, cache_write_1h_tokens=long, **COUNTS)
            cost, listed = with_cost(provider, name, usage).cost, listed_cost(prices, usage)
            is_same = cost == listed if cost is None or listed is None else isclose(cost, listed, rel_tol=1e-9)
            assert is_same, (provider, name, at, size, cost, listed)


def listed_cost(prices: types.ModelPrice, usage: Usage) -> float | None:
    if prices.input_mtok is None and prices.output_mtok is None:
        return None
    counts = types.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cached_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cache_write_1h_tokens=usage.cache_write_1h_tokens,
        output_reasoning_tokens=usage.reasoning_tokens,
        web_searches=usage.web_searches,
    )
    return float(prices.calc_price(counts)["total_price"])


def moments(constraint: Any) -> Iterator[datetime]:
    """Times around those at which a price begins or ends."""
    if constraint is None:
        changes = [NOON]
    elif isinstance(constraint, types.StartDateConstraint):
        changes = [datetime.combine(constraint.start_date, datetime.min.time(), UTC)]
    else:
        changes = [datetime.combine(date(2026, 11, 18), each) for each in (constraint.start_time, constraint.end_time)]
    for change in changes:
        yield from (change - STEP, change, change + STEP)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("part", range(8))
def test_every_name_costs_what_genai_prices_says(part: int) -> None:
    for provider, name in NAMES[part::8]:
        assert_same(provider, name, NOON)


def test_every_change_of_a_price_is_at_its_time() -> None:
    changing = [(each, each[1].prices) for each in MODELS if isinstance(each[1].prices, list)]
    assert len(changing) > 100
    for each, prices in changing:
        for moment in {moment for price in prices for moment in moments(price.constraint)}:
            assert_same(*named(*each)[0], moment)


@settings(max_examples=examples(400))
@given(
    st.sampled_from(sorted(_OWNERS)),
    st.sampled_from(["", "us.", "accounts/fireworks/models/", "anthropic/", "vertex_ai/", " XAI /", "x/", "/", "~"]),
    st.sampled_from(sorted({name for _, name in NAMES})),
    st.sampled_from(["", "-20251211", "-20251211:free", "-20250231", "-2025-12-11", "-v1:0", ":free", "-x", "\ud800"]),
    st.booleans(),
)
def test_any_name_is_found_as_genai_prices_finds_it(
    provider: str, prefix: str, name: str, suffix: str, is_upper: bool
) -> None:
    whole = f"{prefix}{name}{suffix}"
    assert_same(provider, whole.upper() if is_upper else whole, NOON)


@pytest.mark.parametrize(
    ("provider", "name", "is_found"),
    [
        ("azure", "grok-4-1-fast", True),  # as xAI has it
        ("openai", "gpt-5.2-20251211", True),
        ("openai", "gpt-5.2-20251212", False),
        ("openai", "ft:gpt-4o-20240806", True),
        ("openai", "ft:gpt-4o-20240231", False),
        ("litellm", "claude-sonnet-4-5", True),
        ("litellm", "vertex_ai/gemini-3.8-flash", True),
        ("litellm", " xAI /grok-4.3", True),
        ("litellm", "nobody/gpt-5.6", False),
        ("litellm", "/gpt-5.6", False),
        ("nvidia", "gpt-5.6", False),
    ],
)
def test_a_name_is_found_by_its_prefix_its_date_or_at_another_provider(
    provider: str, name: str, is_found: bool
) -> None:
    assert (find_model(_OWNERS[provider], name) is not None) == is_found
    assert_same(provider, name, NOON)


def test_the_file_has_every_model_and_a_price_for_each() -> None:
    listed = {provider.id: len(provider.models) for provider in get_snapshot().providers}
    assert {provider.id: len(_models(provider.id)) for provider in _providers()} == listed
    assert all(model.prices for provider in listed for model in _models(provider))
    assert FILE.with_name("LICENSE").read_text().startswith("The MIT License")
