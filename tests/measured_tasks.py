"""A plugin of pytest for `make coverage` on Python 3.11: tasks whose coroutines are measured after an exception, too.

A task throws the error of what it awaits into its coroutine. Python 3.11 does not tell a tracer when the coroutine that
awaits the one that handles the error goes on, so the lines up to its next `await` would count as never run. These tasks
let the awaited future raise its error itself. Python 3.12 tells it.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    PythonTask = asyncio.Task[Any]
else:
    PythonTask = asyncio.tasks._PyTask


class MeasuredTask(PythonTask):
    """A task that resumes its coroutine also if what it awaits has failed."""

    def _Task__wakeup(self, future: asyncio.Future[Any]) -> None:
        self._Task__step()  # type: ignore[attr-defined]


if sys.version_info < (3, 12):
    asyncio.Task = asyncio.tasks.Task = MeasuredTask  # type: ignore[misc]
