"""Context windows of models."""

from __future__ import annotations

from outrider.providers.base import Provider

BYTES_IN_TOKENS = 3.8
"""Bytes of English text and JSON for each token, as measured with the tokenizer of Qwen2.5-Coder."""


def estimated_tokens(data: str | bytes) -> int:
    """Return about how many tokens a text or JSON has.

    >>> estimated_tokens("a" * 3800)
    1000
    """
    return round(len(data.encode() if isinstance(data, str) else data) / BYTES_IN_TOKENS)


def window_of(provider: Provider) -> int | None:
    """Return the context window of a model in tokens, or None if it is unknown."""
    window = getattr(provider, "window", None)
    return window if isinstance(window, int) else None
