"""The progress of a batch on standard error: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from collections import deque
from contextlib import suppress
from typing import TextIO

from outrider.batches.queue import BatchState
from outrider.batches.task import TaskResult
from outrider.cli.live_region import LiveRegion
from outrider.text import counted, dollars
from outrider.text.visible import safe_line

WINDOW_SECONDS = 60.0
"""The rate is that of the last minute."""
LINE_SECONDS = 10.0
"""The pause between two lines where there is no terminal."""
BAR = 24
MAX_FAILURES = 20
"""Failed tasks that are named."""


class BatchProgress:
    """Counts results and shows where the batch stands."""

    def __init__(
        self, total: int, finished: int, failed: int = 0, *, quiet: bool, stream: TextIO | None = None
    ) -> None:
        self._stream = stream or sys.stderr
        self._quiet = quiet
        self._total, self._before = total, finished
        self._finished = finished
        self._failed, self._failed_before = 0, failed
        self.unknown = 0
        """Calls whose outcome is unknown."""
        self.has_unpriced = False
        """Whether a model answered whose price is not known."""
        self._began = time.monotonic()
        self._times: deque[tuple[float, int]] = deque([(self._began, 0)])
        self._region = LiveRegion(self._stream) if not quiet and self._stream.isatty() else None
        self._printed = self._began

    @property
    def failed(self) -> int:
        """Results without an answer, with those of earlier runs."""
        return self._failed + self._failed_before

    def take(self, results: list[TaskResult]) -> None:
        """Count results, and name those that failed."""
        for result in results:
            self._finished += 1
            self.unknown += len(result.unknown_calls)
            self.has_unpriced = self.has_unpriced or (result.usage.total_tokens > 0 and result.usage.cost is None)
            if not result.is_done:
                self._failed += 1
                if self._failed <= MAX_FAILURES:
                    self.note(f"{result.id}: {result.status}{f': {result.error}' if result.error else ''}")
                elif self._failed == MAX_FAILURES + 1:
                    self.note("more tasks failed; the results file has the reasons")

    def note(self, text: str) -> None:
        """Print a line above the bar."""
        if self._quiet:
            return
        with suppress(OSError):
            if self._region:
                self._region.commit([safe_line(text)[: self._region.width]])
            else:
                print(safe_line(text), file=self._stream, flush=True)

    def show(self, state: BatchState, note: str = "") -> None:
        """Show where the batch stands."""
        now = time.monotonic()
        self._times.append((now, self._finished - self._before))
        while len(self._times) > 2 and now - self._times[0][0] > WINDOW_SECONDS:
            self._times.popleft()
        if self._quiet:
            return
        with suppress(OSError):
            if self._region:
                line = f"{self._bar()} {self.line(state)}{f' · {safe_line(note)}' if note else ''}"
                self._region.draw([line[: self._region.width]])
            elif now - self._printed >= LINE_SECONDS:
                self._printed = now
                print(self.line(state), file=self._stream, flush=True)

    def clear(self) -> None:
        """Erase the bar."""
        with suppress(OSError):
            if self._region:
                self._region.clear()

    def line(self, state: BatchState) -> str:
        """Return the state in one line: counts, rate, cost and the time left."""
        rate = self._rate()
        parts = [f"{self._finished}/{self._total}", f"{state.running} running"]
        if state.waiting:
            parts.append(f"{state.waiting} waiting")
        if self.failed:
            parts.append(f"{self.failed} failed")
        if rate:
            parts.append(f"{rate:.1f}/s" if rate >= 1 else f"{rate * 60:.1f}/min")
        if state.spent:
            parts.append(dollars(state.spent))
        if rate and self._finished < self._total:
            parts.append(f"{duration((self._total - self._finished) / rate)} left")
        return " · ".join(parts)

    def summary(self, spent: float) -> str:
        """Return the last line."""
        parts = [f"{self._finished} of {counted(self._total, 'task')} finished"]
        if self.failed:
            parts.append(f"{self.failed} failed")
        if self.unknown:
            parts.append(f"{counted(self.unknown, 'call')} with an unknown outcome")
        if spent:
            parts.append(dollars(spent))
        if self.has_unpriced:
            parts.append("the price of a model is not known")
        return " · ".join([*parts, duration(time.monotonic() - self._began)])

    def _rate(self) -> float:
        (since, before), (now, count) = self._times[0], self._times[-1]
        return (count - before) / (now - since) if now - since >= 1 else 0.0

    def _bar(self) -> str:
        done = BAR * self._finished // max(1, self._total)
        return "█" * done + "░" * (BAR - done)


def duration(seconds: float) -> str:
    """Return a duration for people.

    >>> duration(42), duration(200), duration(7300)
    ('42 s', '3 min', '2 h 2 min')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
