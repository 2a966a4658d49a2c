"""What version 1 has words for, in those of version 2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from msgspec import UNSET, UnsetType

from outrider.acp.schema import notifications
from outrider.acp.schema.requests import Selector
from outrider.acp.v2.schema import (
    AnyUpdate,
    Command,
    Commands,
    ConfigChanged,
    ConfigOption,
    DraftUpdate,
    PlanItems,
    PlanUpdate,
    TextInput,
)

PLAN = "plan"
"""The id of the one plan that a session has."""


def in_draft(update: AnyUpdate) -> DraftUpdate | None:
    """The update as version 2 has it; None if it is not told there."""
    match update:
        case notifications.CurrentMode():
            return None  # one of the options, and told as such
        case notifications.ConfigChanged(config_options=options):
            return ConfigChanged(config_options(options))
        case notifications.Commands(available_commands=known):
            return Commands(commands(known))
        case notifications.Plan(entries=entries):
            return PlanUpdate(PlanItems(PLAN, entries))
    return cast(DraftUpdate, update)


def config_options(selectors: Sequence[Selector]) -> list[ConfigOption]:
    """The settings of a session."""
    return [
        ConfigOption(each.id, each.name, each.current_value, each.options, each.category, each.description)
        for each in selectors
    ]


def commands(known: Sequence[notifications.Command]) -> list[Command]:
    """What can be typed after a slash."""
    return [Command(each.name, each.description, _input(each.input)) for each in known]


def _input(given: notifications.CommandInput | UnsetType) -> TextInput | UnsetType:
    return UNSET if isinstance(given, UnsetType) else TextInput(given.hint)
