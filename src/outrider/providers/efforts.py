"""What `effort` adds to a request: each model has its own names, budgets or switches for how much it thinks."""

from __future__ import annotations

from typing import Any

from outrider.errors import RequestRefusedError
from outrider.providers.capabilities import Capabilities
from outrider.providers.known_models import known_models


def levels_of(capabilities: Capabilities) -> tuple[str, ...]:
    """Return the effort levels of a model, the lowest first. Empty if it has none."""
    return tuple(known_models().efforts.scales.get(capabilities.effort, {}))


def effort_fields(capabilities: Capabilities, effort: str | None, model: str) -> dict[str, Any]:
    """Return the fields of a request for an effort. Raise RequestRefusedError if the model does not have it."""
    if effort is None:
        return {}
    levels = known_models().efforts.scales.get(capabilities.effort, {})
    if effort not in levels:
        raise RequestRefusedError(refusal(tuple(levels), effort, model))
    return levels[effort]


def refusal(levels: tuple[str, ...], effort: str, model: str) -> str:
    """Return why a model does not take an effort."""
    if not levels:
        return f"{model} has no effort that could be set; leave effort out, or pass the API's own field in options"
    return f"{model} has no effort {effort!r}; it has {', '.join(levels)}"
