"""Progress that is shown often enough to be live, and no oftener."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

FIRST = 0.5
"""Seconds before anything is shown: what is done sooner needs no progress."""
EVERY = 0.1


class Pace:
    """Passes progress on, at most ten times a second; what comes in between is left out."""

    def __init__(self, show: Callable[[Any], None]) -> None:
        self._show = show
        self._next = time.monotonic() + FIRST

    def show(self, say: Callable[[], Any]) -> None:
        """Show what `say` says, if it is time to. It is asked only then."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + EVERY
            self._show(say())
