"""Context windows of models."""

from __future__ import annotations

from outrider.providers.base import Provider


def window_of(provider: Provider) -> int | None:
    """Return the context window of a model in tokens, or None if it is unknown."""
    window = getattr(provider, "window", None)
    return window if isinstance(window, int) else None
