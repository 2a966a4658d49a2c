"""A process of our own, not one of a program that calls `main`: a late first garbage collection, hidden memory.

What a program imports stays until its end. With Python's thresholds the collector looks at it dozens of times before
the first request leaves, and finds next to nothing.

The environment of the program holds keys. A command that a model runs is another process of the same user, and could
read them from /proc/<pid>/environ or with a debugger. On Linux, only root may read those of a process that is not
dumpable.
"""

from __future__ import annotations

import gc
import sys

from outrider.environment import debug_file

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


_PR_SET_DUMPABLE = 4


def hide_process() -> None:
    """Make this process not dumpable. While OUTRIDER_DEBUG is set it stays visible, so that a debugger can attach."""
    if sys.platform != "linux" or debug_file() is not None:
        return
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
