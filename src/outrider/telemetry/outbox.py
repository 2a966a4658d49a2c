"""Work on telemetry that is put off for a moment."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from outrider.providers.debugging import logger

PACE = 0.05
"""Seconds that work waits at most. Turns of a model take longer, so that a turn's spans are made before the next."""


class Outbox:
    """Collects work and does it in one go: between the steps of a run the same work takes three times as long.

    The processor's caches have forgotten the code by then.
    """

    def __init__(self) -> None:
        self._work: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._failed = False

    def put(self, do: Callable[..., None], *args: Any) -> None:
        """Do this soon, after what was put before."""
        self._work.append((do, args))
        if self._timer is None:
            with suppress(RuntimeError):  # a tool in a thread has ended its span; the end of the run will do the work
                self._timer = asyncio.get_running_loop().call_later(PACE, self.empty)

    def empty(self) -> None:
        """Do all of it now, with what it puts here itself. A failure is logged, and the rest is done."""
        while self._work:
            do, args = self._work.popleft()
            try:
                do(*args)
            except Exception:  # noqa: BLE001 - as for observers: the session goes on
                if not self._failed:  # logged once: what fails for one span may fail for all
                    self._failed = True
                    logger.exception("telemetry lost a span or a measurement; the session goes on")
        if self._timer:
            self._timer.cancel()
            self._timer = None
