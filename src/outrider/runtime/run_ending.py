"""How a run ends: its failure as a status, its event, and its result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from outrider.errors import HookBlockedError, LogError, ProviderError, SessionCancelledError
from outrider.runtime.events import RunFinished, RunStatus
from outrider.runtime.run import BudgetSpentError, Progress, RunResult

if TYPE_CHECKING:
    from outrider.runtime.record import SessionRecord


class RunEnding:
    """The end of one run. Make it before the run starts."""

    def __init__(self, record: SessionRecord, progress: Progress) -> None:
        self._record = record
        self._progress = progress
        self._earlier = record.calls.final
        """The final result of an earlier run, which does not end this one."""

    async def result_of(self, work: Awaitable[RunStatus]) -> RunResult:
        """Wait for the run, announce its end, and return its result. Only a cancel of the caller raises."""
        status, error = await self._outcome(work)
        self._announce(status, error)
        progress = self._progress
        return RunResult(
            status,
            progress.text,
            progress.turns,
            progress.usage,
            await self._record.all_messages(),
            error,
            progress.stop_reason,
            progress.structured_output,
            progress.has_structured_output,
            progress.citations,
            self._record.store,
        )

    async def _outcome(self, work: Awaitable[RunStatus]) -> tuple[RunStatus, str]:
        """Return the status of the run, and what went wrong if it is `error`."""
        try:
            return await work, ""
        except (ProviderError, LogError, HookBlockedError) as failure:
            return "error", str(failure)
        except TimeoutError:
            # A final result that came before the time-out of a call beside it ends the run all the same.
            return "done" if self._has_final_result else "max_seconds", ""
        except BudgetSpentError as spent:
            return spent.status, ""
        except SessionCancelledError:
            return "cancelled", ""
        except asyncio.CancelledError:
            self._announce("cancelled", "")
            raise

    @property
    def _has_final_result(self) -> bool:
        return self._record.calls.final not in (None, self._earlier)

    def _announce(self, status: RunStatus, error: str) -> None:
        """Emit the end of the run, with its final result if this run has one."""
        progress, final = self._progress, self._record.calls.final
        if final is not None and final is not self._earlier:
            progress.end_with(final)
        self._record.emit(
            RunFinished(
                status,
                progress.turns,
                progress.usage,
                progress.text,
                error,
                progress.stop_reason,
                progress.structured_output,
                progress.has_structured_output,
            )
        )
