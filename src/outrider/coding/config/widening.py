"""The values of a project's settings file that need the user's consent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from outrider.coding.config.registry import SETTINGS


class Widening(msgspec.Struct, frozen=True):
    """One value that allows more than the user's own."""

    key: str
    value: Any
    """The value in the project's file."""
    instead: Any
    """The value that applies without consent."""
    why: str
    """What the value would allow, in a few words."""


def find_widenings(user: Mapping[str, Any], project: Mapping[str, Any]) -> tuple[Widening, ...]:
    """Return the project's values that allow more than the user's. The user's values are complete."""
    return tuple(
        Widening(key, value, user[key], rule.why)
        for key, value in project.items()
        if (rule := SETTINGS[key].consent) and rule.widens(user[key], value)
    )
