"""How long generated tests run: a short form in every run, the long form in the long runs.

`make test` leaves out what has the mark `long`, tries a quarter of the examples of each property, and takes a few
cases, evenly spread, of a test with the mark `sampled`. `make test-long` runs the rest: what has the mark `long`, the
other cases, and all properties with all their examples. Every generated suite has a short form.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

LONG_EXAMPLES = 100
"""What hypothesis tries by default, and what the counts of single tests are meant for."""
SHORT_EXAMPLES = 25
FEW_EXAMPLES = 5
"""For runs with other versions of what Outrider depends on: they look for what is missing, not for rare values."""

settings.register_profile("short", deadline=None, derandomize=True, max_examples=SHORT_EXAMPLES)
settings.register_profile("few", deadline=None, derandomize=True, max_examples=FEW_EXAMPLES)
settings.register_profile("long", deadline=None, derandomize=True, max_examples=LONG_EXAMPLES)
# Not repeatable: for whoever looks for faults that no example has shown yet.
settings.register_profile("search", deadline=None, max_examples=LONG_EXAMPLES)


def examples(count: int) -> int:
    """Return `max_examples` for a property: all of them in a long run, a quarter in a short one."""
    return max(1, count * settings.default.max_examples // LONG_EXAMPLES)


def mark_left_out(items: list[pytest.Item]) -> None:
    """Give the mark `long` to the cases that short runs leave out of tests with the mark `sampled`."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in tests.values():
        [count] = cases[0].get_closest_marker("sampled").args  # type: ignore[union-attr]
        kept = _spread(count, len(cases))
        for index, case in enumerate(cases):
            if index not in kept:
                case.add_marker(pytest.mark.long)


def leave_out(metafunc: pytest.Metafunc) -> None:
    """Do not make the long cases of a test for a run without them: each takes time, in each process."""
    calls = metafunc._calls
    kept = set(range(len(calls)))
    if sampled := metafunc.definition.get_closest_marker("sampled"):
        kept = _spread(sampled.args[0], len(calls))
    if metafunc.definition.get_closest_marker("long"):
        kept = set()
    short = [call for at, call in enumerate(calls) if at in kept and all(mark.name != "long" for mark in call.marks)]
    metafunc._calls = short or calls[:1]  # without any, the test would count as one that has no cases


def _spread(count: int, cases: int) -> set[int]:
    """Return the indices of so many cases, evenly spread."""
    return {index * (cases - 1) // max(1, count - 1) for index in range(count)}


def only_long(*cases: Any) -> list[Any]:
    """Return these cases of a parametrised test with the mark `long`. At least one other case stays without it."""
    rows = (case if isinstance(case, tuple) else (case,) for case in cases)
    return [pytest.param(*row, marks=pytest.mark.long) for row in rows]
