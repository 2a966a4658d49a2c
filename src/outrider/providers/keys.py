"""Finding the API key of a provider, without its adapter: in the environment, else among the stored ones."""

from __future__ import annotations

import os
from collections.abc import Iterable

from outrider.providers.stored_keys import stored_key

KEY_VARIABLES = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
}
"""The variables of the providers that have tiers."""


def found_key(variables: Iterable[str]) -> str:
    """Return the key of the first of these variables that has one. Empty if there is none."""
    names = tuple(variables)
    found = next(filter(None, map(os.environ.get, names)), "") or stored_key(names)
    return found.strip()  # a key that was read from a file ends with a newline


def has_key(provider: str) -> bool:
    """Return whether there is a key for a provider that has tiers."""
    return bool(found_key(KEY_VARIABLES[provider]))
