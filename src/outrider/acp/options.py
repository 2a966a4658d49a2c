"""What a person can choose in the editor: how much is allowed, and who answers."""

from __future__ import annotations

from outrider.acp.schema.requests import Choice, Mode, Modes, Selector
from outrider.coding.permissions.question import MODE_WORDS, MODES
from outrider.coding.permissions.question import Mode as PermissionMode
from outrider.providers import resolve, tiers
from outrider.providers.base import Provider

MODE, MODEL = "mode", "model"


def as_mode(name: str) -> PermissionMode | None:
    """The mode of that name, if there is one."""
    return next((mode for mode in MODES if mode == name), None)


def modes(current: PermissionMode) -> Modes:
    """The modes, and which of them holds."""
    return Modes(current, [Mode(mode, mode.capitalize(), MODE_WORDS[mode]) for mode in MODES])


def selectors(mode: PermissionMode, model: str) -> list[Selector]:
    """The same as settings, with the model beside it."""
    choices = [Choice(each, each.capitalize(), MODE_WORDS[each]) for each in MODES]
    names = list(dict.fromkeys([model, *known_models()]))
    return [
        Selector(MODE, "Permissions", mode, choices, "mode", "What is done without asking you."),
        Selector(MODEL, "Model", model, [Choice(name, name) for name in names], "model", "Who answers."),
    ]


def has_key(provider: Provider) -> bool:
    """Whether a model can be asked, as far as that depends on a key of the user."""
    return not getattr(provider, "key_required", False) or bool(getattr(provider, "key", ""))


def known_models() -> list[str]:
    """The tiers of the providers that have a key, and the demo model."""
    with_key = [prefix for prefix in tiers.ORDER if getattr(resolve(f"{prefix}/balanced"), "key", "")]
    return [*(f"{prefix}/{tier}" for prefix in with_key for tier in tiers.models_of(prefix)), "demo"]
