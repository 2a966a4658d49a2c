"""The policy for full context windows."""

from __future__ import annotations

import math

import msgspec


class Compaction(msgspec.Struct, frozen=True):
    """When a conversation is shortened because the context window of the model fills up. The log keeps everything.

    >>> Compaction(threshold=None).threshold is None
    True
    """

    threshold: float | None = 0.85
    """The share of the context window at which the conversation is summarised. None: only if the API refuses it."""
    clear_threshold: float | None = 0.6
    """The share of the window at which old results are cleared, if that saves a fifth of the window. None: never."""
    tail_share: float = 0.2
    """The share of the room for messages that the newest ones keep, whole. They are 20,000 tokens at most."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is None and name != "tail_share":
                continue
            if not isinstance(value, int | float) or not math.isfinite(value) or not 0 < value <= 1:
                raise ValueError(f"compaction.{name} is {value!r}; it must be a share: over 0, at most 1")
