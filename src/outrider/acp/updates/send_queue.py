"""What waits to be written, and when: one timer for all calls, and every write in the order of the changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import perf_counter
from typing import Any, Protocol, TypeAlias

from outrider.acp.updates.json_value import unwrap
from outrider.acp.updates.metrics import Metrics
from outrider.acp.updates.tracked_call import TrackedCall
from outrider.acp.updates.update import Update

logger = logging.getLogger("outrider.acp.updates")

INTERVAL = 0.05
"""Seconds that a change waits for others to go out with it, unless something else is set."""
MAX_RETRY_DELAY = 5.0
"""Seconds between two attempts, when writing fails again and again."""


class Timer(Protocol):
    """What `call_later` gives back."""

    def cancel(self) -> object:
        """Do not call."""


CallLater: TypeAlias = Callable[[float, Callable[[], None]], Timer]


class SendQueue:
    """The calls that have something to be written, in the order in which they first changed."""

    def __init__(
        self,
        send: Callable[[Update], int],
        metrics: Metrics,
        told: Callable[[TrackedCall], None],
        *,
        full: bool,
        repeat_limit: int,
        interval: float,
        congested: Callable[[], bool],
        clock: Callable[[], float] | None,
        call_later: CallLater | None,
    ) -> None:
        """`told` hears of each call whose end was written."""
        self.clock = clock or asyncio.get_running_loop().time
        self._call_later = call_later or asyncio.get_running_loop().call_later
        self._send = send
        self._metrics = metrics
        self._told = told
        self._full = full
        self._repeat_limit = repeat_limit
        self._interval = interval
        self._pause = self._delay = interval or INTERVAL
        """Seconds until what could not be written, or is not due, is looked at again."""
        self._congested = congested
        self._waiting: dict[str, TrackedCall] = {}
        self._timer: Timer | None = None
        self._armed_for = 0.0
        self._is_writing = self._is_closed = False

    def later(self, call: TrackedCall) -> None:
        """The call has changed: it is written with whatever else changes until the timer fires."""
        if call.id in self._waiting:
            self._metrics.coalesced += 1
        else:
            self._waiting[call.id] = call
        if self._interval:
            self._arm(self._interval)
        else:
            self.write(only_urgent=self._congested())

    def now(self, call: TrackedCall) -> None:
        """The call has changed and is written at once: what waits goes first, so that changes are seen in their order.

        While the observer reads slowly, only announcements and ends are.
        """
        if call.id in self._waiting:
            self._metrics.coalesced += 1
            if call.sent is not None:  # else it keeps its place: calls are announced in the order in which they came
                del self._waiting[call.id]
        self._waiting[call.id] = call
        self.hurry()

    def hurry(self) -> None:
        """Write what waits without waiting for the timer."""
        self.write(only_urgent=self._congested(), hurried=True)

    def write(self, *, only_urgent: bool = False, hurried: bool = False) -> None:
        """Write what waits; hurried, also what was printed and is not due yet. What fails is tried again later."""
        if self._is_writing:  # `send` came back here: what is being written would be written twice
            return
        self._is_writing, failed = True, self._metrics.failed
        try:
            for call in list(self._waiting.values()):
                if call.is_urgent or not only_urgent:
                    self._write_call(call, hurried=hurried)
        finally:
            self._is_writing = False
        self._delay = min(MAX_RETRY_DELAY, self._delay * 2) if self._metrics.failed > failed else self._pause
        if self._waiting:
            self._arm(self._delay)

    def close(self) -> None:
        """End the timer."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _write_call(self, call: TrackedCall, *, hurried: bool) -> None:
        """Write what differs. The call waits on if a write fails, or changes it, or if what it prints is not due."""
        changes = call.ledger.changes
        if call.prints:
            call.ready(self.clock(), hurried=hurried)
        written = self._write_parts(call)
        if written and call.ledger.changes == changes and not call.is_held:
            del self._waiting[call.id]
            if call.is_ended:
                self._told(call)

    def _write_parts(self, call: TrackedCall) -> bool:
        """The announcement, what was printed, and the rest, as far as there is something of each; whether all went."""
        if call.sent is None and not self._deliver(call, call.announcement(), is_new=True):
            return False
        while output := call.output():
            if not self._deliver(call, (call.known() if self._full else {}) | {"output": output}):
                return False
        started = perf_counter()
        fields = call.difference(full=self._full, repeat_limit=self._repeat_limit)
        self._metrics.detecting += perf_counter() - started
        return not fields or self._deliver(call, fields)

    def _deliver(self, call: TrackedCall, fields: dict[str, Any], *, is_new: bool = False) -> bool:
        update = Update(call.id, is_new, **unwrap(fields))
        try:
            size = self._send(update)
        except Exception as error:  # noqa: BLE001 - whatever it is, the update was not sent, and will be
            self._metrics.failed += 1
            logger.debug("an update of call %s could not be sent, and will be sent again: %r", call.id, error)
            return False
        self._metrics.count_sent(call.delivered(fields), size, self.clock(), is_new=is_new)
        return True

    def _tick(self) -> None:
        self._timer = None
        self.write(only_urgent=self._congested())

    def _arm(self, delay: float) -> None:
        """Have the timer fire after the delay, or earlier if it is set so already."""
        if self._is_closed:
            return
        if self._timer is not None:
            if self._armed_for <= delay:
                return
            self._timer.cancel()
        self._armed_for = delay
        self._timer = self._call_later(delay, self._tick)
