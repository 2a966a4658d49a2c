"""Vendors with a Chat Completions API, by name: the address of each, the variable of its key, and its quirks.

`NAME_BASE_URL` overrides an address: `GROQ_BASE_URL`, `OPENROUTER_BASE_URL` and so on. The quirks also apply to a
server that is named by its URL, if it is a vendor's.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

import msgspec


class Quirks(msgspec.Struct, frozen=True):
    """How a server differs from OpenAI's."""

    reply_after_results: str = ""
    """Text of an assistant message between tool results and a user message, where the API refuses one after the
    other."""
    id_length: int = 0  # the exact length of call ids, if they must be letters and digits of one length
    usage_option: bool = True
    """Whether the API takes `stream_options`. If not, it sends the usage without being asked."""
    tokens_field: str = "max_tokens"
    """The field for the longest reply. OpenAI's reasoning models refuse the older name, which other servers know."""
    reply_images: bool = False  # whether an assistant message may have `images`
    reports_cost: bool = False  # whether `usage.cost` is the price of the request in US dollars
    lists_modalities: bool = False  # whether the list of models says which of them take pictures


class Vendor(msgspec.Struct, frozen=True):
    """A vendor of models behind a Chat Completions API."""

    prefix: str  # the part of a model name before the first slash
    label: str
    base_url: str
    example: str  # a model, for messages
    quirks: Quirks = Quirks()
    prices: str = ""  # the name of the vendor in the price list; empty if it is the prefix
    more_keys: tuple[str, ...] = ()  # further environment variables for the key

    @property
    def key_variables(self) -> tuple[str, ...]:
        """The environment variables for the key. The first one that is set counts."""
        return (f"{self.prefix.upper()}_API_KEY", *self.more_keys)

    @property
    def base_variable(self) -> str:
        return f"{self.prefix.upper()}_BASE_URL"

    @property
    def host(self) -> str:
        return self.base_url.split("/")[2]


_MISTRAL = Quirks(reply_after_results="OK", id_length=9, usage_option=False, lists_modalities=True)
_OPENROUTER = Quirks(reply_images=True, reports_cost=True, lists_modalities=True)
_TOGETHER = ("TOGETHERAI_API_KEY",)
_KIMI = "accounts/fireworks/models/kimi-k2p5"
_NEMOTRON = "nvidia/llama-3.3-nemotron-super-49b-v1.5"

VENDORS: dict[str, Vendor] = {
    vendor.prefix: vendor
    for vendor in (
        Vendor("openrouter", "OpenRouter", "https://openrouter.ai/api/v1", "anthropic/claude-sonnet-5.5", _OPENROUTER),
        Vendor("groq", "Groq", "https://api.groq.com/openai/v1", "openai/gpt-oss-120b"),
        Vendor("mistral", "Mistral", "https://api.mistral.ai/v1", "mistral-medium-3-5", _MISTRAL),
        Vendor("deepseek", "DeepSeek", "https://api.deepseek.com", "deepseek-v4-flash"),
        Vendor("xai", "xAI", "https://api.x.ai/v1", "grok-4.3", prices="x-ai"),
        Vendor("together", "Together", "https://api.together.xyz/v1", "moonshotai/Kimi-K2.5", more_keys=_TOGETHER),
        Vendor("fireworks", "Fireworks", "https://api.fireworks.ai/inference/v1", _KIMI),
        Vendor("cerebras", "Cerebras", "https://api.cerebras.ai/v1", "gpt-oss-120b"),
        Vendor("nvidia", "NVIDIA", "https://integrate.api.nvidia.com/v1", _NEMOTRON),
    )
}
"""The vendors by their prefix."""

_BY_HOST = {vendor.host: vendor for vendor in VENDORS.values()}
_NO_QUIRKS = Quirks()
_OPENAI = Quirks(tokens_field="max_completion_tokens")


def quirks_of(prefix: str, host: str) -> Quirks:
    """Return the quirks of a server: those of a vendor by its prefix, or of any server by its host.

    >>> quirks_of("openai-compatible", "api.mistral.ai").id_length, quirks_of("mistral", "localhost").id_length
    (9, 9)
    """
    vendor = VENDORS.get(prefix) or _BY_HOST.get(host)
    if vendor is not None:
        return vendor.quirks
    return _OPENAI if host == "openai.com" or host.endswith(".openai.com") else _NO_QUIRKS


_OWN_NAMES = {
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
    owner = next((owner for pattern, owner in _OWN_NAMES.items() if fnmatchcase(model, pattern)), "")
    return f"{owner}/{model}" if owner else model
