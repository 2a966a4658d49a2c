"""What `effort` and `temperature` add to a request: each model has its own names, budgets or switches."""

from __future__ import annotations

from typing import Any

from outrider.errors import RequestRefusedError
from outrider.providers.base import EFFORTS, Effort, ModelSettings, Provider
from outrider.providers.catalogue.capabilities import Capabilities
from outrider.providers.catalogue.known_models import known_models


def levels_of(capabilities: Capabilities) -> tuple[str, ...]:
    return tuple(known_models().efforts.scales.get(capabilities.effort, {}))


def effort_fields(capabilities: Capabilities, effort: str | None, model: str) -> dict[str, Any]:
    """Return the fields of a request for an effort. Raise RequestRefusedError if the model does not have it."""
    if effort is None:
        return {}
    levels = known_models().efforts.scales.get(capabilities.effort, {})
    if effort not in levels:
        raise RequestRefusedError(refusal(tuple(levels), effort, model))
    return levels[effort]


def temperature_fields(capabilities: Capabilities, settings: ModelSettings) -> dict[str, float]:
    """Return the field of a request for its temperature. Empty if there is none, or the model would refuse it."""
    taken, is_thinking = capabilities.temperature, settings.effort not in (None, "none")
    if settings.temperature is None or taken == "no" or (taken == "without_effort" and is_thinking):
        return {}
    return {"temperature": settings.temperature}


def levels_for(provider: Provider) -> tuple[Effort, ...] | None:
    """Return the effort levels of a provider's model, or None if the provider is not one of ours."""
    capabilities = getattr(provider, "capabilities", None)
    if not isinstance(capabilities, Capabilities):
        return None
    levels = levels_of(capabilities)
    return tuple(effort for effort in EFFORTS if effort in levels)


def offered(provider: Provider, effort: Effort | None) -> Effort | None:
    """Return the effort if the model has it, else None. A provider that is not one of ours gets it in any case."""
    levels = levels_for(provider)
    return effort if levels is None or effort in levels else None


def check_effort(provider: Provider, effort: str) -> None:
    levels = levels_for(provider)
    if levels is not None and effort not in levels:
        raise RequestRefusedError(refusal(levels, effort, provider.name))


def refusal(levels: tuple[str, ...], effort: str, model: str) -> str:
    if not levels:
        return f"{model} has no effort that could be set; leave effort out, or pass the API's own field in options"
    return f"{model} has no effort {effort!r}; it has {', '.join(levels)}"
