"""Days of the calendar where the program runs. An imported entry may have any time, and a clock may be moved."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple

from outrider.log.usage_tables import QUARTER_SECONDS, UsageSums


class Day(NamedTuple):
    """A day from its midnight up to the next one: 23 to 25 hours."""

    start: float
    end: float


def day_of(moment: float) -> Day:
    """Return the day of a moment."""
    try:
        year, month, day = time.localtime(moment)[:3]
        start, end = (time.mktime((year, month, each, 0, 0, 0, 0, 0, -1)) for each in (day, day + 1))
    except (OverflowError, ValueError, OSError):  # outside of all calendars
        return Day(0.0, 0.0)
    return Day(start, end)


def name_of(moment: float) -> str:
    """Return the date of a moment, or "" if no calendar has it."""
    try:
        return time.strftime("%Y-%m-%d", time.localtime(moment))
    except (OverflowError, ValueError, OSError):
        return ""


def named(sums: Iterable[tuple[str | int, UsageSums]]) -> dict[str, UsageSums]:
    """Return sums by their names: those of quarters of an hour become those of days."""
    found: dict[str, UsageSums] = {}
    for key, each in sums:
        found.setdefault(key if isinstance(key, str) else name_of(key * QUARTER_SECONDS), UsageSums()).merge(each)
    return found
