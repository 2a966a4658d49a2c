"""Asking a database that may be away for a while, as it is when it restarts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from outrider.errors import DamagedLogError, LogDeniedError, LogError, NewerLogError

P = ParamSpec("P")
T = TypeVar("T")
LOG_SECONDS = 600.0
"""How long a task waits for a database that cannot be reached."""
PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds before the second attempt, and the most that the growing pause reaches."""
PERMANENT = (DamagedLogError, LogDeniedError, NewerLogError)
"""Errors that time does not heal."""


async def retried(function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Call a blocking function in a thread, again and again while it raises LogError, for ten minutes."""
    until, pause = time.monotonic() + LOG_SECONDS, PAUSE
    while True:
        try:
            return await asyncio.to_thread(function, *arguments, **options)
        except PERMANENT:
            raise
        except LogError:
            if time.monotonic() > until:
                raise
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
