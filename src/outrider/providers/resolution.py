"""Resolve model names to providers. An adapter is imported only when one of its models is used.

anthropic/claude-sonnet-5-5    a provider and a model
claude-sonnet-5-5              a vendor's own name, without the provider
anthropic/fast                 a provider and a tier: fast, balanced or powerful
openrouter/openai/gpt-6.1-sol  a vendor with a Chat Completions API (vendors.py), and its name of a model
fast                           that tier of the first provider that has a key
http://host:8000/v1#qwen3      an OpenAI-compatible server and a model
demo                           the built-in demo model; no other name means it
anthropic/fast,openai/fast     several models: the next one goes on if one cannot answer

To add a provider, write an adapter in a file of its own, a subclass of `api.ApiProvider`; add its prefix to `_ADAPTERS`
below, and what its models accept to `models.json`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from importlib import import_module
from typing import TypeAlias

from outrider.errors import MissingKeyError, OutriderError, UnknownModelError
from outrider.providers.base import Provider, Reply, Request
from outrider.providers.catalogue import tiers
from outrider.providers.catalogue.vendors import VENDORS, qualified
from outrider.providers.catalogue.windows import window_of
from outrider.providers.deltas import Delta, Notice

Models: TypeAlias = str | Provider | Sequence[str | Provider]
"""The model of an agent: a name or a provider, or several in the order in which they are asked."""

# The part of a model name before the slash, and where the class or function is that makes the adapter of a model.
_ADAPTERS = {
    "anthropic": "adapters.anthropic:Anthropic",
    "openai": "adapters.openai_responses:OpenAIResponses",
    "openai-chat": "adapters.openai_chat:OpenAIChat",
    "gemini": "adapters.gemini:Gemini",
    "litellm": "adapters.litellm:LiteLLM",
    "ollama": "adapters.ollama:Ollama",
    "azure": "adapters.azure:Azure",
    "vertex": "adapters.vertex:provider",
    "bedrock": "adapters.bedrock:provider",
    "demo": "demo.demo:provider",
}
PREFIXES = (*_ADAPTERS, *VENDORS)

_EXAMPLES = {
    "litellm": "anthropic/claude-sonnet-5-5",
    "azure": "my-deployment",
    "vertex": "gemini-3.8-flash",
    "bedrock": "anthropic.claude-sonnet-5-5",
}

# Prefixes of names that resemble a vendor's own, and the probable provider.
_LIKELY_PROVIDERS = {"claude": "anthropic", "gpt-oss": "ollama", "gemini": "gemini"}
_LIKELY_PROVIDERS |= dict.fromkeys(("gpt", "chatgpt", "o1", "o3", "o4"), "openai")


def resolve(model: str | Provider) -> Provider:
    """Return the provider for a name, of several names the first one's. A provider object is returned unchanged."""
    if not isinstance(model, str):
        if isinstance(model, Provider):
            return model
        raise UnknownModelError(f"a model is a name or a provider object, not {type(model).__name__}")
    if "," in model:
        return resolve_all(model)[0]
    model = model.strip()
    if model.startswith(("http://", "https://")):
        return _load("adapters.hosted:provider", model)
    if model in tiers.TIERS:
        return _first_with_key(model)
    prefix, _, name = qualified(model).partition("/")
    if prefix not in PREFIXES:
        raise _unknown(model)
    if not name and prefix != "demo":
        raise UnknownModelError(
            f"{model!r} names no model; write it after the slash, as in '{prefix}/{_example(prefix)}'"
        )
    if prefix in VENDORS:
        from outrider.providers.adapters import hosted

        return hosted.adapter_of(prefix)(name)
    return _load(_ADAPTERS[prefix], tiers.models_of(prefix).get(name, name))


def several(models: Models) -> tuple[str | Provider, ...]:
    """Return models one by one: a list, names with commas between them, or a single one.

    >>> several("anthropic/fast, openai/fast")
    ('anthropic/fast', 'openai/fast')
    """
    if isinstance(models, str):
        return tuple(name.strip() for name in models.split(",")) if "," in models else (models,)
    if not isinstance(models, list | tuple):
        return (models,)  # type: ignore[return-value]  # `resolve` refuses what is no provider
    if not models:
        raise UnknownModelError("the list of models is empty; name at least one")
    return tuple(models)


def resolve_all(models: Models) -> tuple[Provider, ...]:
    """Return the providers of models. Of several, one for which there is no key fails only when it is asked."""
    names = several(models)
    return (resolve(names[0]),) if len(names) == 1 else tuple(map(_one_of_several, names))


def _one_of_several(model: str | Provider) -> Provider:
    try:
        return resolve(model)
    except MissingKeyError as error:  # a tier without a key
        return _Keyless(str(model), error)


class _Keyless:
    """A model that cannot be asked because there is no key."""

    def __init__(self, name: str, error: MissingKeyError) -> None:
        self.name = name
        self._error = error

    def stream(self, request: Request) -> AsyncIterator[Delta | Notice | Reply]:
        raise self._error


def window_of_name(model: str) -> int | None:
    """Return the context window of the model with this name, if it exists and its window is known."""
    try:
        return window_of(resolve(model))
    except OutriderError:
        return None


def _load(adapter: str, model: str) -> Provider:
    module, _, maker = adapter.partition(":")
    provider: Provider = getattr(import_module(f"outrider.providers.{module}"), maker)(model)
    return provider


def _first_with_key(tier: str) -> Provider:
    from outrider.providers.credentials.keys import KEY_VARIABLES, has_key  # reads stored keys

    if chosen := tiers.override_of(tier):
        return resolve(chosen)
    for prefix in tiers.ORDER:
        if has_key(prefix):
            return resolve(f"{prefix}/{tier}")
    *others, last = (KEY_VARIABLES[prefix][0] for prefix in tiers.ORDER)
    raise MissingKeyError(
        f"there is no key for the model {tier!r}; set {', '.join(others)} or {last}, run `outrider login`, or name the "
        "model of another provider"
    )


def _example(prefix: str) -> str:
    if prefix in VENDORS:
        return VENDORS[prefix].example
    return tiers.models_of(prefix).get("balanced") or _EXAMPLES.get(prefix, "qwen3")


def _unknown(model: str) -> UnknownModelError:
    suggestion = _suggestion(model)
    guess = f"did you mean {suggestion!r}? " if suggestion else ""
    known = ", ".join(f"{prefix}/…" for prefix in PREFIXES if prefix != "demo")
    return UnknownModelError(
        f"there is no model {model!r}; {guess}known: {known}, {', '.join(tiers.TIERS)}, demo, "
        "http://host:port/v1#model, or an object with a stream() method"
    )


def _suggestion(model: str) -> str:
    from difflib import get_close_matches

    prefix, slash, name = model.partition("/")
    if slash and (close := get_close_matches(prefix.lower(), PREFIXES, 1)):
        return f"{close[0]}/{name}"
    bare = model.rpartition("/")[2].lower()
    for start, owner in _LIKELY_PROVIDERS.items():
        if bare.startswith(start):
            return f"{owner}/{_example(owner) if bare.isalpha() else bare}"
    return next(iter(get_close_matches(model.lower(), (*tiers.TIERS, "demo"), 1)), "")
