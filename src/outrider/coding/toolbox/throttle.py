"""Throttled progress messages."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

FIRST = 0.5
"""Seconds before the first message: shorter work needs no progress."""
EVERY = 0.1


class ProgressThrottle:
    """Forwards at most ten progress messages a second and drops the rest."""

    def __init__(self, show: Callable[[Any], None]) -> None:
        self._show = show
        self._next = time.monotonic() + FIRST

    def show(self, say: Callable[[], Any]) -> None:
        """Show the value that `say` returns, if one is due. `say` is not called otherwise."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + EVERY
            self._show(say())
