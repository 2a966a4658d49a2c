"""The tables of the usage index, whatever keeps them: what each request has used, and the sums of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from outrider.conversation.messages import rounded_cost
from outrider.log.used import Used

T = TypeVar("T")
Dimension: TypeAlias = Literal["quarter", "model", "folder"]
"""What sums are grouped by. A quarter of an hour is the largest time that is within one day in every time zone."""
QUARTER_SECONDS = 900
_LAST_QUARTER = 2**40
"""Imported entries may have any time. No calendar has this one."""


class UsageState(msgspec.Struct, frozen=True, array_like=True):
    """How far a session is indexed, and what it is now."""

    id: str
    seq: int = 0
    checksum: int = 0
    """That of entry `seq`: another one means another log. 0 if the entry is damaged."""
    model: str = ""
    folder: str = ""


class UsageSums(msgspec.Struct, array_like=True):
    """What some requests have used together."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float = 0.0
    first_token: float = 0.0
    """The sum of the seconds until the first token, where they were measured."""
    measured: int = 0
    """The requests whose time to the first token is known."""

    def add(self, used: Used) -> None:
        """Add a request."""
        self.requests += 1
        self.input_tokens += used.usage.input_tokens
        self.output_tokens += used.usage.output_tokens
        self.cached_tokens += used.usage.cached_tokens
        self.cost = rounded_cost(self.cost + (used.usage.cost or 0.0))
        if used.first_token is not None:
            self.first_token += used.first_token
            self.measured += 1

    def merge(self, other: UsageSums) -> None:
        """Add other sums."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.cost = rounded_cost(self.cost)


class TurnUsage(NamedTuple):
    """The context of a session after one of its replies or compactions."""

    seq: int
    time: float
    tokens: int
    is_compaction: bool
    cost: float | None


class UsageAdvance(NamedTuple):
    """What the next entries of a session change."""

    number: int
    old: UsageState
    new: UsageState
    sums: dict[tuple[int, str], UsageSums]
    """By quarter of an hour and model. The model is empty where the entry does not name it."""
    turns: list[TurnUsage]


class Usages(Protocol):
    """The tables of the index, while they are open."""

    @property
    def is_kept(self) -> bool:
        """Whether the next use finds what this one adds. Else the folder cannot be written."""
        ...

    def states(self, numbers: Sequence[int] | None = None) -> dict[int, UsageState]:
        """Return how far these sessions are indexed, or all."""
        ...

    def count(self) -> int:
        """Return how many sessions are indexed."""
        ...

    def advance(self, step: UsageAdvance) -> UsageState:
        """Add the changes in one transaction, if the state is still the old one. Return the state then."""
        ...

    def together(self) -> AbstractContextManager[None]:
        """Advance several sessions in one transaction where a commit is slow. After an error none is."""
        ...

    def forget(self, numbers: Sequence[int]) -> None:
        """Remove sessions."""
        ...

    def sums(self, dimension: Dimension, since: int) -> list[tuple[str | int, UsageSums]]:
        """Return the sums by one dimension, of the quarters from `since` on."""
        ...

    def turns(self, number: int) -> Iterator[TurnUsage]:
        """Iterate over the replies and compactions of a session, in order."""
        ...


class UsageTables(Protocol):
    """The place of the index."""

    @property
    def is_separate(self) -> bool:
        """Whether the index is in a file of its own, which may be older than the log, or of another log."""
        ...

    def exists(self) -> bool:
        """Return whether anything was ever indexed."""
        ...

    def run(self, work: Callable[[Usages], T]) -> T:
        """Run work on the tables, perhaps once more on empty ones. Raise LogError if that fails."""
        ...


def quarter_of(time: float) -> int:
    """Return the quarter of an hour of a time.

    >>> quarter_of(0.0), quarter_of(1_800.5), quarter_of(float("inf")) == quarter_of(1e300)
    (0, 2, True)
    """
    return int(min(max(0.0, time), _LAST_QUARTER * QUARTER_SECONDS) // QUARTER_SECONDS)
