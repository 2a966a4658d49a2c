"""Find the provider of a model name without one, from the vendors' own names."""

from __future__ import annotations

from fnmatch import fnmatchcase

_VENDORS = {
    "claude-?*": "anthropic",
    "gpt-oss*": "",  # open weights: any server may have them, but not OpenAI's own API
    "gpt-?*": "openai",
    "chatgpt-?*": "openai",
    "ft:gpt-?*": "openai",
    "o[1-9]": "openai",
    "o[1-9]-?*": "openai",
    "gemini-?*": "gemini",
}
"""Patterns of names, and the provider of these models. The first match counts."""


def qualified(model: str) -> str:
    """Return a vendor's own model name with its provider. Return any other name unchanged.

    >>> qualified("claude-sonnet-5-5"), qualified("o3"), qualified("ollama/qwen3"), qualified("llama")
    ('anthropic/claude-sonnet-5-5', 'openai/o3', 'ollama/qwen3', 'llama')
    """
    if "/" in model:
        return model
    owner = next((owner for pattern, owner in _VENDORS.items() if fnmatchcase(model, pattern)), "")
    return f"{owner}/{model}" if owner else model
