"""Models by name. An adapter is imported only when its models are asked for."""

from __future__ import annotations

from importlib import import_module

from outrider.errors import UnknownModelError
from outrider.provider import Provider

# The part of a model's name before the slash, and the module whose `provider(model)` answers to it.
_MODULES = {"demo": "outrider.providers.demo"}


def resolve(model: str | Provider) -> Provider:
    """The provider that a name stands for; a provider stands for itself."""
    if not isinstance(model, str):
        if isinstance(model, Provider):
            return model
        raise UnknownModelError(f"a model is a name or a provider object, not {type(model).__name__}")
    prefix, _, name = model.partition("/")
    if prefix not in _MODULES:
        known = ", ".join(repr(each) for each in _MODULES)
        raise UnknownModelError(f"there is no model {model!r}; known: {known}, or an object with a stream() method")
    provider: Provider = import_module(_MODULES[prefix]).provider(name)
    return provider
