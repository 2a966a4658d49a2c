"""The policy for requests that fail for the moment."""

from __future__ import annotations

import math

import msgspec


class Retry(msgspec.Struct, frozen=True):
    """How long a request is retried that an overloaded or failing API did not answer.

    >>> Retry(seconds=0).seconds
    0
    """

    seconds: float = 300.0
    """Seconds from a failure to the last attempt; 0 for no retry. A part of a reply starts them anew."""
    idle_seconds: float = 600.0
    """Seconds without anything new, keep-alives aside, after which a stream counts as broken."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            is_number = isinstance(value, int | float) and math.isfinite(value)
            if not is_number or value < 0 or (value == 0 and name != "seconds"):
                raise ValueError(f"retry.{name} is {value!r}; it must be a number of seconds")
