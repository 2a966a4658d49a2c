"""How long generated tests run: a short form in every run, the long form in the long runs.

`make test` leaves out what has the mark `long`, and tries a quarter of the examples of each property. `make test-long`
runs the rest: what has the mark, and all properties with all their examples. Every generated suite has a short form.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

LONG_EXAMPLES = 100
"""What hypothesis tries by default, and what the counts of single tests are meant for."""
SHORT_EXAMPLES = 25

settings.register_profile("short", deadline=None, derandomize=True, max_examples=SHORT_EXAMPLES)
settings.register_profile("long", deadline=None, derandomize=True, max_examples=LONG_EXAMPLES)
# Not repeatable: for whoever looks for faults that no example has shown yet.
settings.register_profile("search", deadline=None, max_examples=LONG_EXAMPLES)


def examples(count: int) -> int:
    """Return `max_examples` for a property: all of them in a long run, a quarter in a short one."""
    return count * settings.default.max_examples // LONG_EXAMPLES


def only_long(*cases: Any) -> list[Any]:
    """Return these cases of a parametrised test with the mark `long`. At least one other case stays without it."""
    rows = (case if isinstance(case, tuple) else (case,) for case in cases)
    return [pytest.param(*row, marks=pytest.mark.long) for row in rows]
