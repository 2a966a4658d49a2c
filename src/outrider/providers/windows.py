"""How much a model can take in."""

from __future__ import annotations

from outrider.providers.api import ApiProvider
from outrider.providers.base import Provider
from outrider.providers.prices import context_tokens


def window_of(provider: Provider) -> int | None:
    """How many tokens the model can take in, if that is known."""
    if not isinstance(provider, ApiProvider):
        return None
    return context_tokens(provider.prefix, provider.model) or provider.capabilities.context_tokens
