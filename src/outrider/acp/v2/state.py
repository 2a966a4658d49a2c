"""Whether a session works, waits for its person, or rests, as version 2 has it told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import UNSET

from outrider.acp.v2.schema import Failure, State


class Foreground:
    """The state of one session. Changes are told, once."""

    def __init__(self, tell: Callable[[State], object]) -> None:
        self._tell = tell
        self._state = "idle"
        self._calls: set[str] = set()
        """Those that are being carried out."""
        self._blocked: int | None = None
        """How many of them can be waiting for an answer; None if nothing is asked."""
        self._is_stopping = False

    def begin(self) -> None:
        """Work begins."""
        self._calls.clear()
        self._is_stopping = False
        self._become("running")

    def end(self, stop_reason: str, error: Failure | None = None) -> None:
        """Work is over."""
        self._state = "idle"
        self._tell(State("idle", stop_reason, error or UNSET))

    def repeat(self) -> None:
        """Tell how it is, to an editor that has not heard of it."""
        self._tell(State(self._state))

    def started(self, call_id: str) -> None:
        """A call is being carried out."""
        self._calls.add(call_id)
        self._settle()

    def finished(self, call_id: str) -> None:
        """It is over."""
        self._calls.discard(call_id)
        self._settle()

    @contextmanager
    def asking(self, *, for_subagent: bool) -> Iterator[None]:
        """A question is with the person. The call that sent out a sub-agent waits for it, too."""
        self._blocked = 1 if for_subagent else 0
        self._settle()
        try:
            yield
        except asyncio.CancelledError:
            self._is_stopping = True
            raise
        finally:
            self._blocked = None
            self._settle()

    def _settle(self) -> None:
        if self._state != "idle" and not self._is_stopping:
            is_blocked = self._blocked is not None and len(self._calls) <= self._blocked
            self._become("requires_action" if is_blocked else "running")

    def _become(self, state: str) -> None:
        if state != self._state:
            self._state = state
            self._tell(State(state))
