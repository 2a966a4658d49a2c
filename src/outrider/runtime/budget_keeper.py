"""Refuses requests once the budget of the day is used up, and warns before."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from outrider.errors import BudgetError, ConversationError
from outrider.runtime.budget import Budget, Spent
from outrider.runtime.events import Notice

if TYPE_CHECKING:
    from outrider.log.usage_tables import Day
    from outrider.runtime.record import SessionRecord


class BudgetKeeper:
    """Refuses the requests of a session once the budget of the day is used up."""

    def __init__(self, record: SessionRecord, folder: str, clock: Callable[[], float] | None = None) -> None:
        self._record, self._folder = record, folder
        self._clock = clock
        self._warned: set[tuple[str, float]] = set()
        """The budgets and days about which the user was warned."""

    async def admit(self, budget: Budget) -> None:
        """Return if another request may be sent. Raises BudgetError, and LogError if the log cannot say."""
        from outrider.log.usage_tables import day_of  # few sessions have a budget

        day = day_of((self._clock or time.time)())
        for name, limit in budget.parts.items():
            found = await self._spent(name, limit, day)
            if found.cost >= limit:
                raise BudgetError(
                    f"today's budget is used up: {found.text}. It is renewed at midnight; to go on now, raise "
                    f"budget.{name} (outrider config set budget.{name} {2 * limit:g}) and continue the session"
                )
            if found.is_warned and (name, day.start) not in self._warned:
                self._warned.add((name, day.start))
                self._record.emit(Notice(f"The budget is nearly used up: {found.text}"))

    async def _spent(self, name: str, limit: float, day: Day) -> Spent:
        owner = self._record.state.settings.owner or "" if name == "owner_day" else ""
        if name == "owner_day" and not owner:
            return Spent(name, 0.0, limit)
        cost = await self._record.journal.spent(*day, self._folder if name == "folder_day" else "", owner)
        if cost is None:
            raise ConversationError("a budget is kept in a log: open the session with Session.open(log, …)")
        return Spent(name, cost + (self._record.unstored_usage.cost or 0.0), limit)
