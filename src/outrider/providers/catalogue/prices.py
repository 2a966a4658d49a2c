"""Cost of a reply and context window of a model, from the price list.

The list comes with Outrider; nothing is fetched. The cost of an unknown or local model is None. A lookup never raises:
a failure here must not lose a reply.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from outrider.conversation.usage import Usage, rounded_cost
from outrider.providers.catalogue.vendors import VENDORS

if TYPE_CHECKING:
    from outrider.providers.catalogue.price_list import ListedModel

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
"""The price of writing to a cache that lasts an hour, as a multiple of fresh input, where the price list has none."""
PERIOD = 900  # seconds for which rates are cached: prices change at a certain date or hour


class Rates(msgspec.Struct, frozen=True):
    """US dollars for one token of each kind, for requests with more than `above` input tokens."""

    above: int
    fresh: float
    cached: float
    written: float
    output: float
    reasoning: float
    request: float = 0.0  # for the request itself
    search: float = 0.0  # for a web search of the API
    listed_1h: float = 0.0  # for writing to a cache that lasts an hour; 0 if the list has no price for it

    @property
    def written_1h(self) -> float:
        """The price of writing to a cache that lasts an hour."""
        return self.listed_1h or max(self.written, LONG_WRITE * self.fresh)


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
    found = _listed(provider, model)
    return found.context_window if found is not None else None


def _cost(rates: Rates, usage: Usage) -> float:
    fresh = max(0, usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens)
    written = max(0, usage.output_tokens - usage.reasoning_tokens)
    for_an_hour = usage.cache_write_1h_tokens * (rates.written_1h - rates.written)
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
    found = _listed(provider, model)
    if found is None:
        return ()
    price = found.price_at(datetime.fromtimestamp(period * PERIOD, UTC))
    return tuple(Rates(above, *(each / 1_000_000 for each in figures)) for above, figures in price.rates)


@lru_cache(maxsize=256)
def _listed(provider: str, model: str) -> ListedModel | None:
    owner = _OWNERS.get(provider)
    if owner is None or not model:
        return None
    try:
        from outrider.providers.catalogue.price_list import find_model  # many processes need no price

        return find_model(owner, model)
    except Exception:  # noqa: BLE001 - an installation may be damaged
        return None
