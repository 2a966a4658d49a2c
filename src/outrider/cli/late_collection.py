"""Let the garbage collector of a process of our own begin after the imports.

What a program imports stays until its end. With Python's thresholds the collector looks at it dozens of times before
the first request leaves, and finds next to nothing.
"""

from __future__ import annotations

import gc

FIRST_COLLECTION = 150_000
"""New objects before the first collection. The imports of `-p` and its request are about 80,000."""


def delay_first_collection() -> None:
    """Collect for the first time when there are many objects, and from then on as usual."""
    usual = gc.get_threshold()

    def restore(_phase: str, _about: dict[str, int]) -> None:
        gc.set_threshold(*usual)
        gc.callbacks.remove(restore)

    gc.callbacks.append(restore)
    gc.set_threshold(FIRST_COLLECTION, *usual[1:])
