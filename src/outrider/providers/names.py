"""Whose model a name without a provider is: the vendors' own names tell."""

from __future__ import annotations

from fnmatch import fnmatchcase

_VENDORS = {
    "claude-?*": "anthropic",
    "gpt-oss*": "",  # open weights: any server may have them, and OpenAI's own API does not
    "gpt-?*": "openai",
    "chatgpt-?*": "openai",
    "ft:gpt-?*": "openai",
    "o[1-9]": "openai",
    "o[1-9]-?*": "openai",
    "gemini-?*": "gemini",
}
"""How the names begin, and the provider whose models they are. The first line that fits counts."""


def qualified(model: str) -> str:
    """The name with its provider, where it has none and is a vendor's own; any other name as it is.

    >>> qualified("claude-sonnet-5-5"), qualified("o3"), qualified("ollama/qwen3"), qualified("llama")
    ('anthropic/claude-sonnet-5-5', 'openai/o3', 'ollama/qwen3', 'llama')
    """
    if "/" in model:
        return model
    owner = next((owner for pattern, owner in _VENDORS.items() if fnmatchcase(model, pattern)), "")
    return f"{owner}/{model}" if owner else model
