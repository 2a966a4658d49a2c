"""Counts down the seconds until a failed request is sent again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

import msgspec

from outrider.runtime.events import Retrying

TICK_SECONDS = 1.0


class Countdown:
    """Draws the line of a `Retrying` event, once a second if an event loop runs."""

    def __init__(self, event: Retrying, draw: Callable[[str], None]) -> None:
        self._event = event
        self._draw = draw
        self._end = monotonic() + event.delay
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Draw the line now, and each second until the end."""
        left = max(0.0, self._end - monotonic())
        self._draw(msgspec.structs.replace(self._event, delay=left).text)
        if left:
            try:
                self._timer = asyncio.get_running_loop().call_later(min(TICK_SECONDS, left), self.start)
            except RuntimeError:  # no loop, as in a replay
                self._timer = None

    def stop(self) -> None:
        """Draw no more."""
        if self._timer:
            self._timer.cancel()
