"""Context windows of models."""

from __future__ import annotations

from outrider.providers.api import ApiProvider
from outrider.providers.base import Provider
from outrider.providers.prices import context_tokens


def window_of(provider: Provider) -> int | None:
    """Return the context window of a model in tokens, or None if it is unknown."""
    if not isinstance(provider, ApiProvider):
        return None
    return context_tokens(provider.prefix, provider.model) or provider.capabilities.context_tokens
