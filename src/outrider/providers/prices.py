"""What a reply cost and how much a model can read, from the price list of genai-prices.

The list comes with that package and is imported when the first price is asked for, which takes about a quarter of a
second; nothing is fetched. A model that it does not have costs None, and so does a local one. A price never fails: what
goes wrong here must not cost a reply that has arrived.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from outrider.conversation.messages import Usage

# The part of a model's name before the slash, and the provider in the price list.
_OWNERS = {
    "anthropic": "anthropic",
    "gemini": "google",
    "litellm": "litellm",  # the list looks at the model's own prefix
    "openai": "openai",
    "openai-chat": "openai",
}
PERIOD = 900
"""Seconds for which rates are kept: prices change on a date or at an hour."""


class Rates(msgspec.Struct, frozen=True):
    """US dollars for one token of each kind, for requests with more than `above` tokens of input."""

    above: int
    fresh: float
    cached: float
    written: float
    output: float
    reasoning: float
    request: float
    """For the request itself."""


def with_cost(provider: str, model: str, usage: Usage) -> Usage:
    """The usage with its cost in US dollars, if the price list has the model. A cost that is known already stays.

    >>> with_cost("ollama", "qwen3", Usage(1000, 100)).cost is None
    True
    """
    if usage.cost is not None:
        return usage
    for rates in rates_of(provider, model):
        if usage.input_tokens > rates.above:
            return msgspec.structs.replace(usage, cost=_cost(rates, usage))
    return usage


def rates_of(provider: str, model: str) -> tuple[Rates, ...]:
    """What a model costs now, the rates for the longest requests first; empty if that is not known."""
    return _rates(provider, model, int(time.time()) // PERIOD)


def context_tokens(provider: str, model: str) -> int | None:
    """How many tokens a model reads at most, where the price list says so."""
    found = _entry(provider, model)
    return found.context_window if found is not None else None


def _cost(rates: Rates, usage: Usage) -> float:
    fresh = max(0, usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens)
    spoken = max(0, usage.output_tokens - usage.reasoning_tokens)
    return (
        fresh * rates.fresh
        + usage.cached_tokens * rates.cached
        + usage.cache_write_tokens * rates.written
        + spoken * rates.output
        + usage.reasoning_tokens * rates.reasoning
        + rates.request
    )


@lru_cache(maxsize=256)
def _rates(provider: str, model: str, period: int) -> tuple[Rates, ...]:
    entry = _entry(provider, model)
    if entry is None:
        return ()
    try:
        prices = entry.get_prices(datetime.fromtimestamp(period * PERIOD, UTC))
        if prices.input_mtok is None and prices.output_mtok is None:
            return ()  # priced by the hour or the page, which the usage does not tell
        return tuple(_rates_above(prices, above) for above in sorted(_thresholds(prices), reverse=True))
    except Exception:  # noqa: BLE001 - a list of another shape is as good as none
        return ()


def _thresholds(prices: Any) -> set[int]:
    """Above how many tokens of input a price changes; -1 stands for the beginning."""
    return {-1, *(tier.start for price in vars(prices).values() for tier in getattr(price, "tiers", ()))}


def _rates_above(prices: Any, above: int) -> Rates:
    def of(name: str, otherwise: float = 0.0, per: int = 1_000_000) -> float:
        price = getattr(prices, name, None)
        return otherwise if price is None else float(_at(price, above)) / per

    fresh, output = of("input_mtok"), of("output_mtok")
    return Rates(
        above,
        fresh,
        of("cache_read_mtok", fresh),
        of("cache_write_mtok", fresh),
        output,
        of("output_reasoning_mtok", output),
        of("requests_kcount", per=1000),
    )


def _at(price: Any, above: int) -> Any:
    """A price for requests with more than so many tokens of input: all of their tokens cost the same."""
    tiers = [tier for tier in getattr(price, "tiers", ()) if tier.start <= above]
    return tiers[-1].price if tiers else getattr(price, "base", price)


@lru_cache(maxsize=256)
def _entry(provider: str, model: str) -> Any:
    """The model in the price list; None if it is not there."""
    owner = _OWNERS.get(provider)
    if owner is None or not model:
        return None
    try:
        from genai_prices.data_snapshot import get_snapshot  # brings pydantic and a megabyte of prices

        return get_snapshot().find_provider_model(model, None, owner, None)[1]
    except Exception:  # noqa: BLE001 - LookupError for a model that is not there; nothing else is worth a reply either
        return None
