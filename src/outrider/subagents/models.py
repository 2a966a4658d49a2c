"""Who answers for a sub-agent."""

from __future__ import annotations

from outrider.errors import UnknownModelError
from outrider.providers.base import Provider
from outrider.providers.names import qualified
from outrider.providers.tiers import TIERS, models_of, override_of

AS_SENDER = ("", "inherit")


def model_for(wanted: str, sender: Provider, *, is_foreign: bool = False) -> str | Provider:
    """The model that is wanted: by name, a tier of whoever answers the sender, or the sender's own.

    A tier does not lead to another vendor, unless the user has set it to: what a conversation says stays where it is.
    Nor does a foreign wish, which is a project's.
    """
    if is_foreign and not same_vendor(wanted, sender):
        return sender
    if wanted not in TIERS:
        return sender if wanted in AS_SENDER else wanted
    if override_of(wanted):
        return wanted
    provider = sender.name.partition("/")[0]
    return f"{provider}/{wanted}" if models_of(provider) else sender


def described(wanted: str, sender: Provider, *, is_foreign: bool = False) -> str:
    """The model that `model_for` gives, in a word for the sender: a tier, a name, or "the same as yours"."""
    try:
        model = model_for(wanted, sender, is_foreign=is_foreign)
    except UnknownModelError:  # whoever sends one out is told what is wrong
        return wanted
    return wanted if isinstance(model, str) else "the same as yours"


def same_vendor(wanted: str, sender: Provider) -> bool:
    """Whether a model by name is one of those who answer the sender anyway."""
    return wanted in (*AS_SENDER, *TIERS) or _vendor(wanted) == _vendor(sender.name)


def _vendor(model: str) -> str:
    """Who reads what is sent to a model: a provider, a server by its address, or whom LiteLLM passes it on to."""
    if "://" in model:
        return model.partition("#")[0].rstrip("/")
    parts = qualified(model).split("/")
    return "/".join(parts[:2] if parts[0] == "litellm" else parts[:1])
