"""The limits of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from outrider.conversation.attachments import MAX_BYTES

FORMER_NAMES: Mapping[str, str] = {
    "turns": "max_turns",
    "tokens": "max_total_tokens",
    "cost": "max_cost",
    "seconds": "max_seconds",
    "repeats": "max_repeats",
    "subagents": "max_subagents",
}
"""The names of limits in settings, profiles and logs of earlier versions."""


RESULT_SHARE = 0.4
"""Characters of one result for each token of the context window. A token has about three characters."""
SHORTEST_RESULT = 1_000
"""Characters of one result that a model reads, however small its window."""


WARNED_AT = 3
"""Turns without anything new, or checks that fail in the same way, after which the model is warned."""


class Limits(msgspec.Struct, frozen=True):
    """The limits of a run. None means no limit.

    A limit called `max_…` counts over the run; a run that it stops has its name as status. The others bound one call,
    one result or one file. `max_total_tokens` is not `Agent(max_tokens=…)`, which bounds one reply.
    """

    max_turns: int | None = 50
    """Turns: replies of the model in one run."""
    max_total_tokens: int | None = None
    """Tokens in and out, summed over the run's requests."""
    max_cost: float | None = None
    """US dollars for the run."""
    max_seconds: float | None = None
    """Wall time of the run."""
    max_repeats: int | None = 10
    """Turns in a row that repeat earlier calls with the same results."""
    max_checks: int | None = 25
    """Checks of the goal in one run. Five in a row that fail in the same way end it as well."""
    max_subagents: int | None = 200
    """Sub-agents that one run starts, in sequence or at once."""
    tool_seconds: float | None = 600.0
    """Wall time of one call, for tools without a time-out of their own."""
    result_characters: int = 50_000
    """Characters of one result that the model reads, at most; the whole is stored. A small context window lowers it."""
    attachment_bytes: int = MAX_BYTES
    """The largest file that a tool or a person may send."""

    def within(self, window: int | None) -> Limits:
        """Return the limits for a model with this context window, in tokens: one result takes about an eighth of it.

        >>> Limits().within(16_384).result_characters, Limits().within(200_000).result_characters
        (6553, 50000)
        """
        most = self.result_characters if window is None else max(SHORTEST_RESULT, int(window * RESULT_SHARE))
        return self if most >= self.result_characters else msgspec.structs.replace(self, result_characters=most)

    @property
    def changed(self) -> dict[str, Any]:
        """The limits that differ from the defaults."""
        found = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return {name: value for name, value in found if value != getattr(_DEFAULTS, name)}

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is None and name in ("result_characters", "attachment_bytes"):
                raise ValueError(f"the limit {name} cannot be None: give a number")
            if value is not None and (not isinstance(value, int | float) or not value > 0):
                raise ValueError(f"the limit {name} is {value!r}; it must be a number over 0, or None for no limit")


_DEFAULTS = Limits()
