"""The price list: `genai_prices/prices.json`, which `scripts/price-table` makes from the data of genai-prices.

The first lookup reads it, and decodes the models of the provider that it needs. A model is found as genai-prices finds
it: the first one whose names match counts.
"""

from __future__ import annotations

import re
from datetime import date, datetime, time
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from outrider.struct_types import described

FILE = Path(__file__).with_name("genai_prices") / "prices.json"
Clause = str | list[Any] | dict[str, Any]
"""A name, a list of which one clause must match, or an object with one test. Names are in lower case."""
_COMPACT_DATE = re.compile(r"-(20\d{6})(?=[-:]|$)")


class Price(msgspec.Struct, frozen=True, array_like=True):
    """What a model costs from a day on, in certain hours of each day (UTC), or always."""

    when: date | tuple[time, time] | None
    rates: tuple[tuple[int, tuple[float, ...]], ...]
    """A number of input tokens, and US dollars for a million of each thing in requests with more, highest number first.
    Empty if tokens have no price."""

    def holds(self, moment: datetime) -> bool:
        if self.when is None:
            return True
        if isinstance(self.when, date):
            return moment.date() >= self.when
        start, end = self.when
        hour = moment.time()
        return start <= hour < end if start <= end else hour >= start or hour < end


class ListedModel(msgspec.Struct, frozen=True, array_like=True):
    """A model of a provider, or several with one price."""

    match: Clause
    context_window: int | None
    prices: tuple[Price, ...]

    def price_at(self, moment: datetime) -> Price:
        """Return the last price that holds at a moment in UTC, or else the first one."""
        return next((price for price in reversed(self.prices) if price.holds(moment)), self.prices[0])


class _Provider(msgspec.Struct, frozen=True):
    id: str
    models: msgspec.Raw
    provider_match: Clause = []
    model_match: Clause = []
    fallbacks: tuple[str, ...] = ()  # providers whose prices are used for models that this one lacks


class _PriceList(msgspec.Struct, frozen=True):
    providers: tuple[_Provider, ...]


def find_model(owner: str, name: str) -> ListedModel | None:
    """Return a model by the name of its provider in the list. LiteLLM's names begin with their provider, or lack it."""
    name = name.lower()
    provider = _provider(owner)
    if owner == "litellm":
        prefix, slash, rest = name.partition("/")
        provider = _provider(prefix.strip()) if slash else None
        if provider is not None:
            name = rest
        else:
            provider = next((each for each in _providers() if _is_match(each.model_match, name)), None)
    if provider is None:
        return None
    # Some servers write 20251211 where the list has 2025-12-11.
    return _model(provider, name) or _model(provider, _COMPACT_DATE.sub(_with_dashes, name))


@cache
def _providers() -> tuple[_Provider, ...]:
    return msgspec.json.decode(FILE.read_bytes(), type=described(_PriceList)).providers


@cache
def _models(provider: str) -> tuple[ListedModel, ...]:
    kind = described(tuple[ListedModel, ...])
    found = (each.models for each in _providers() if each.id == provider)
    return tuple(model for models in found for model in msgspec.json.decode(models, type=kind))


def _provider(name: str) -> _Provider | None:
    named = (each for each in _providers() if each.id == name)
    return next(named, None) or next((each for each in _providers() if _is_match(each.provider_match, name)), None)


def _model(provider: _Provider, name: str) -> ListedModel | None:
    owners = (provider.id, *provider.fallbacks)
    return next((model for owner in owners for model in _models(owner) if _is_match(model.match, name)), None)


def _is_match(clause: Clause, name: str) -> bool:
    match clause:
        case str():
            return name == clause
        case list():
            return any(_is_match(part, name) for part in clause)
        case {"and": parts}:
            return all(_is_match(part, name) for part in parts)
        case {"starts_with": text}:
            return name.startswith(text)
        case {"ends_with": text}:
            return name.endswith(text)
        case {"contains": text}:
            return text in name
        case {"regex": pattern}:
            return re.search(pattern, name) is not None
    raise ValueError(f"unknown clause: {clause}")


def _with_dashes(found: re.Match[str]) -> str:
    try:
        return f"-{date.fromisoformat(found[1])}"
    except ValueError:  # no day of the calendar
        return found[0]
