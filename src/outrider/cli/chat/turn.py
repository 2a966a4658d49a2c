"""One turn of the agent in the chat: shown while it runs, and cancelled by keys."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any
from weakref import WeakSet

from outrider.cli.chat.session_view import SessionView
from outrider.errors import OutriderError
from outrider.runtime.run import ENDINGS, RunResult


class TurnRunner:
    """Runs one turn after the other, and decides what Ctrl-C and Esc do."""

    def __init__(self, view: SessionView, exit: Callable[[], None]) -> None:
        self.seconds = 0.0
        """How long the last turn took."""
        self._view = view
        self._exit = exit
        self._turn: asyncio.Future[RunResult | None] | None = None
        self._cancelled: WeakSet[asyncio.Future[Any]] = WeakSet()
        """Turns that the user has cancelled."""
        self._warned = False
        """Whether the user was told that the next Ctrl-C exits."""

    @property
    def is_running(self) -> bool:
        return self._turn is not None and not self._turn.done()

    async def run(self, work: Coroutine[Any, Any, RunResult | None]) -> bool:
        """Show the session while it works. Return whether it ended neither cancelled nor with an error."""
        self._view.start()
        self._turn = asyncio.ensure_future(work)
        started = time.monotonic()
        try:
            result = await self._turn
            self._stop_view()
            if result is not None:
                self._show_outcome(result)
            return result is None or result.status not in ("cancelled", "error")
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) and task.cancelling():
                raise
            self._stop_view()
            self._view.note(ENDINGS["cancelled"])
        except OutriderError as error:
            self._stop_view()
            self._view.problem(error)
        finally:
            self._stop_view()
            self.seconds = time.monotonic() - started
        return False

    def interrupt(self, by_control_c: bool) -> None:
        """Cancel the turn. If it does not end at once, warn, then exit on the next Ctrl-C."""
        if self._warned and by_control_c:
            self._exit()
        elif self._turn and self._turn in self._cancelled:
            if by_control_c:
                self._warn()
        elif self._turn:
            self._cancelled.add(self._turn)
            self._turn.cancel()

    def line_was_read(self) -> None:
        """Forget an earlier Ctrl-C: the user goes on."""
        self._warned = False

    def line_was_cancelled(self, text: str) -> bool:
        """Handle Ctrl-C in a line with this text. Return whether to exit: on the second Ctrl-C in an empty line."""
        if text:
            self._warned = False
        elif self._warned:
            return True
        else:
            self._warn()
        return False

    def _warn(self) -> None:
        self._warned = True
        self._view.dim("Press Ctrl-C again to exit.")

    def _show_outcome(self, result: RunResult) -> None:
        if result.status in ("error", "budget"):
            self._view.problem(result.error)
        elif ending := ENDINGS.get(result.status):
            self._view.note(ending)

    def _stop_view(self) -> None:
        self._turn = None
        self._view.stop()
