"""The settings of a session that a user can change in the editor: the permission mode, the model and its effort."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.acp.schema.requests import ConfigOption, ConfigOptionValue, SessionMode, SessionModeState
from outrider.coding.permissions.question import MODE_WORDS, MODES
from outrider.coding.permissions.question import Mode as PermissionMode
from outrider.providers.base import EFFORT_CHOICES, EffortChoice, Provider
from outrider.providers.catalogue import tiers
from outrider.providers.catalogue.efforts import levels_for
from outrider.providers.credentials import keys
from outrider.providers.credentials.keys import stored_values

MODE, MODEL, EFFORT = "mode", "model", "effort"
DEFAULT_EFFORT = "default"


def mode_state(current: PermissionMode, modes: Sequence[PermissionMode] = MODES) -> SessionModeState:
    """Return the modes that are allowed and the current one."""
    return SessionModeState(current, [SessionMode(mode, mode.capitalize(), MODE_WORDS[mode]) for mode in modes])


def parse_effort(name: str) -> EffortChoice | None:
    return next((effort for effort in EFFORT_CHOICES if effort == name), None)


def config_options(
    mode: PermissionMode, model: str, provider: Provider, effort: str | None, allowed: Sequence[PermissionMode] = MODES
) -> list[ConfigOption]:
    """Return the mode, the model and its effort as config options, with their possible values."""
    modes = [ConfigOptionValue(each, each.capitalize(), MODE_WORDS[each]) for each in allowed]
    names = list(dict.fromkeys([model, *known_models()]))
    models = [ConfigOptionValue(name, name) for name in names]
    options = [
        ConfigOption(MODE, "Permissions", mode, modes, "mode", "Which tool calls run without asking."),
        ConfigOption(MODEL, "Model", model, models, "model", "The model that answers."),
    ]
    if levels := levels_for(provider):
        values = [ConfigOptionValue(each, each.capitalize()) for each in (DEFAULT_EFFORT, *levels)]
        current = effort or DEFAULT_EFFORT
        options.append(ConfigOption(EFFORT, "Effort", current, values, "thought_level", "How much the model thinks."))
    return options


def has_any_key() -> bool:
    """Return whether the user has a key: in the environment, or stored by `outrider login`."""
    return len(known_models()) > 1 or bool(stored_values())


def known_models() -> list[str]:
    """Return the tiers of the providers that have a key, and the demo model."""
    with_key = filter(keys.has_key, tiers.ORDER)
    return [*(f"{prefix}/{tier}" for prefix in with_key for tier in tiers.models_of(prefix)), "demo"]
