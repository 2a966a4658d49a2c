"""Cost of a reply and context window of a model, from the price list of genai-prices.

The list comes with that package. The first lookup imports it, which takes about a quarter of a second; nothing is
fetched. The cost of an unknown or local model is None. A lookup never raises: a failure here must not lose a reply.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from outrider.conversation.messages import Usage, rounded_cost
from outrider.providers.catalogue.vendors import VENDORS

# The part of a model name before the slash, and the provider in the price list.
_OWNERS = {
    "anthropic": "anthropic",
    "gemini": "google",
    "litellm": "litellm",  # the list looks at the model's own prefix
    "openai": "openai",
    "openai-chat": "openai",
    "azure": "azure",
    "bedrock": "aws",
    "vertex": "google",
    **{vendor.prefix: vendor.prices or vendor.prefix for vendor in VENDORS.values()},
}
LONG_WRITE = 2.0
"""The price of writing to a cache that lasts an hour, as a multiple of fresh input. The price list does not have it."""
PERIOD = 900  # seconds for which rates are cached: prices change at a certain date or hour


class Rates(msgspec.Struct, frozen=True):
    """US dollars for one token of each kind, for requests with more than `above` input tokens."""

    above: int
    fresh: float
    cached: float
    written: float
    output: float
    reasoning: float
    request: float  # for the request itself
    search: float  # for a web search of the API


def with_cost(provider: str, model: str, usage: Usage) -> Usage:
    """Return the usage with its cost in US dollars, if the price list has the model. Keep a known cost.

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
    """Return the current rates of a model, those for the longest requests first. Empty if they are unknown."""
    return _rates(provider, model, int(time.time()) // PERIOD)


def context_tokens(provider: str, model: str) -> int | None:
    found = _entry(provider, model)
    return found.context_window if found is not None else None


def _cost(rates: Rates, usage: Usage) -> float:
    fresh = max(0, usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens)
    written = max(0, usage.output_tokens - usage.reasoning_tokens)
    for_an_hour = usage.cache_write_1h_tokens * max(0.0, LONG_WRITE * rates.fresh - rates.written)
    return rounded_cost(
        fresh * rates.fresh
        + for_an_hour
        + usage.cached_tokens * rates.cached
        + usage.cache_write_tokens * rates.written
        + written * rates.output
        + usage.reasoning_tokens * rates.reasoning
        + rates.request
        + usage.web_searches * rates.search
    )


@lru_cache(maxsize=256)
def _rates(provider: str, model: str, period: int) -> tuple[Rates, ...]:
    entry = _entry(provider, model)
    if entry is None:
        return ()
    try:
        prices = entry.get_prices(datetime.fromtimestamp(period * PERIOD, UTC))
        if prices.input_mtok is None and prices.output_mtok is None:
            return ()  # priced by the hour or the page, which is not part of the usage
        # The numbers of input tokens above which a price changes, and -1 for the first price.
        starts = {-1, *(tier.start for price in vars(prices).values() for tier in getattr(price, "tiers", ()))}
        return tuple(_rates_above(prices, above) for above in sorted(starts, reverse=True))
    except Exception:  # noqa: BLE001 - the list may have another shape
        return ()


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
        of("web_searches_kcount", of("searches_kcount", per=1000), per=1000),
    )


def _at(price: Any, above: int) -> Any:
    """Return the price for requests with more than `above` input tokens. It applies to all of their tokens."""
    tiers = [tier for tier in getattr(price, "tiers", ()) if tier.start <= above]
    return tiers[-1].price if tiers else getattr(price, "base", price)


@lru_cache(maxsize=256)
def _entry(provider: str, model: str) -> Any:
    owner = _OWNERS.get(provider)
    if owner is None or not model:
        return None
    try:
        from genai_prices.data_snapshot import get_snapshot  # imports pydantic and a megabyte of prices

        return get_snapshot().find_provider_model(model, None, owner, None)[1]
    except Exception:  # noqa: BLE001 - LookupError for an unknown model; no other error may lose a reply either
        return None
