"""The model of a sub-agent."""

from __future__ import annotations

from outrider.errors import UnknownModelError
from outrider.providers.base import Provider
from outrider.providers.names import qualified
from outrider.providers.tiers import TIERS, models_of, override_of

INHERIT = ("", "inherit")


def model_for(wanted: str, parent: Provider, *, from_project: bool = False) -> str | Provider:
    """Return the model that a sub-agent uses: a model by name, a tier of the parent's vendor, or the parent's model.

    A tier stays with the parent's vendor, so that the conversation is not sent to another one, unless the user has set
    the tier to a model of another vendor. A name that a project chose must be of the parent's vendor, too.
    """
    if from_project and not same_vendor(wanted, parent):
        return parent
    if wanted not in TIERS:
        return parent if wanted in INHERIT else wanted
    if override_of(wanted):
        return wanted
    provider = parent.name.partition("/")[0]
    return f"{provider}/{wanted}" if models_of(provider) else parent


def describe_model(wanted: str, parent: Provider, *, from_project: bool = False) -> str:
    """Describe the model that `model_for` returns to the parent: a tier, a name, or "the same as yours"."""
    try:
        model = model_for(wanted, parent, from_project=from_project)
    except UnknownModelError:  # starting the sub-agent reports it
        return wanted
    return wanted if isinstance(model, str) else "the same as yours"


def same_vendor(wanted: str, parent: Provider) -> bool:
    """Return whether a model by name belongs to the parent's vendor."""
    return wanted in (*INHERIT, *TIERS) or _vendor(wanted) == _vendor(parent.name)


def _vendor(model: str) -> str:
    """Return who receives the requests of a model: a provider, a server by its address, or LiteLLM's upstream."""
    if "://" in model:
        return model.partition("#")[0].rstrip("/")
    parts = qualified(model).split("/")
    return "/".join(parts[:2] if parts[0] == "litellm" else parts[:1])
