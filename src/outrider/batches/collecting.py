"""Collect the results of a batch as its workers finish them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

from outrider.batches.queue import BatchState, Queue
from outrider.batches.task import TaskResult
from outrider.errors import LogError

POLL_SECONDS = 0.1
"""The pause between two looks for new results."""


class Collector:
    """Reads the results of a batch, each once, in the order in which they were stored."""

    def __init__(self, queue: Queue, batch: str) -> None:
        self._queue, self._batch = queue, batch
        self._mark = 0
        self.state = BatchState(0, 0, 0)
        """Where the batch stood at the last look."""
        self.trouble = ""
        """Why the last look failed; empty if it did not."""

    async def results(self, is_stopped: Callable[[], bool] = lambda: False) -> AsyncGenerator[list[TaskResult], None]:
        """Yield new results, perhaps none, about ten times a second.

        Ends when all tasks have results, when the budget is used up and no task runs, or when `is_stopped` says so.
        """
        while True:
            stopped = is_stopped()
            found = await asyncio.to_thread(self._look)
            yield found
            if not found and (stopped or (not self.trouble and self._has_ended())):
                return
            if found and self.state.is_complete:
                continue
            await asyncio.sleep(POLL_SECONDS)

    def _look(self) -> list[TaskResult]:
        """Return new results. A database that is down for the moment is asked again later."""
        try:
            # The state first: if it counts a result, the results have it, too.
            self.state = self._queue.state(self._batch)
            found, self._mark = self._queue.results(self._batch, self._mark)
        except LogError as error:
            self.trouble = str(error)
            return []
        self.trouble = ""
        return found

    def _has_ended(self) -> bool:
        return self.state.is_complete or (self.state.is_spent and not self.state.running)
