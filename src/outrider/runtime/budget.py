"""The budget of a day, over all sessions and processes of a log. `budget_keeper.py` checks it before each request."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from outrider.text import dollars

WARNED_SHARE = 0.8
"""The share of a budget from which on the user is warned."""
_WHOSE = {"day": "", "folder_day": " of this folder", "owner_day": " of this owner"}


class Budget(msgspec.Struct, frozen=True):
    """US dollars that requests may cost in one day, from midnight to midnight. None means no limit.

    All sessions of the log count, those of other processes and machines as well, with sub-agents, summaries and titles.
    A request that is under way when the budget is used up is paid; none follows it.
    """

    day: float | None = None
    """For all sessions of the log."""
    folder_day: float | None = None
    """For those in the same folder as the session."""
    owner_day: float | None = None
    """For those of the same owner as the session, if it has one."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int | float) or not value > 0):
                raise ValueError(f"the budget {name} is {value!r}; it must be a number over 0, or None for no limit")

    @property
    def parts(self) -> dict[str, float]:
        """The budgets that are set, by name."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}

    def within(self, other: Budget) -> Budget:
        """Return the lower of both budgets, in each part.

        >>> Budget(day=2, folder_day=1).within(Budget(day=1.5)) == Budget(day=1.5, folder_day=1)
        True
        """
        if self is other or other == NO_BUDGET:
            return self
        parts = (self.parts, other.parts)
        names = {name for each in parts for name in each}
        return Budget(**{name: min(each[name] for each in parts if name in each) for name in names})


NO_BUDGET = Budget()


class Spent(NamedTuple):
    """What a day has cost so far, against its budget."""

    name: str
    """Of the budget, as in the settings."""
    cost: float
    budget: float

    @property
    def is_warned(self) -> bool:
        """Whether the budget is nearly used up, or more."""
        return self.cost >= WARNED_SHARE * self.budget

    @property
    def text(self) -> str:
        """The sum in a few words."""
        return f"{dollars(self.cost)} of {dollars(self.budget)}{_WHOSE[self.name]} today (budget.{self.name})"


def spent_today(
    budget: Budget, spent: Callable[..., float], folder: str, owner: str = "", now: float | None = None
) -> Iterator[Spent]:
    """Yield what today has cost against each budget, for people. `spent` is that of a log. Blocks."""
    from outrider.log.usage_tables import day_of

    day = day_of(time.time() if now is None else now)
    for name, limit in budget.parts.items():
        if name != "owner_day" or owner:
            whose = {"folder": folder} if name == "folder_day" else {"owner": owner} if name == "owner_day" else {}
            yield Spent(name, spent(*day, **whose), limit)
