"""The pacer of the update engine: when changes are sent. No other part of the engine knows the time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import perf_counter
from typing import Any, Protocol, TypeAlias

import msgspec

from outrider.acp.updates.call_state import Update, unwrap
from outrider.acp.updates.metrics import Metrics
from outrider.acp.updates.tracked_call import REPEAT_LIMIT, TrackedCall

logger = logging.getLogger("outrider.acp.updates")

INTERVAL = 0.05
"""Default seconds for which changes are collected."""
OUTPUT_INTERVAL, OUTPUT_THRESHOLD = 0.2, 1_024
"""Seconds between two updates with output; appended output of so many characters is sent earlier."""
BYTES_PER_SECOND = 3_500
"""Rate limit for content with output: after an update of so many bytes on the wire, the next waits a second."""
MAX_RETRY_DELAY = 5.0
"""Seconds between two attempts when sending fails repeatedly."""


class Timer(Protocol):
    """The handle that `call_later` returns."""

    def cancel(self) -> object:
        """Cancel the call."""


CallLater: TypeAlias = Callable[[float, Callable[[], None]], Timer]


class UpdateReader(Protocol):
    """An observer that may read more slowly than the engine sends."""

    @property
    def is_congested(self) -> bool:
        """Whether it reads too slowly at the moment."""

    def when_drained(self, callback: Callable[[], None]) -> None:
        """Call back once, as soon as it has caught up."""


class UpdateTarget(msgspec.Struct, frozen=True):
    """Where updates go, and the time there."""

    send: Callable[[Update], int]
    """Sends one update and returns its size in bytes. If it raises, the update is sent again later."""
    reader: UpdateReader | None = None
    """While it is congested, only announcements and ends are sent; the rest follows when it has caught up."""
    clock: Callable[[], float] | None = None
    """The time of the event loop, if it is None; the same for `call_later`."""
    call_later: CallLater | None = None


class Delivery(msgspec.Struct, frozen=True):
    """How changes are sent."""

    appends: bool = False
    """Whether output is sent as increments; otherwise its end is part of the content."""
    full: bool = False
    """Whether every update has every field."""
    repeat_limit: int = REPEAT_LIMIT
    """Bytes up to which the end of a call repeats unchanged content and locations."""
    interval: float = INTERVAL
    """Seconds for which changes are collected; with 0 each is sent at once."""
    format_output: Callable[[str], str] = str
    """Turns output into the text of an item."""


class Pacer:
    """The calls with unsent changes, in the order of their first change; one timer for all of them.

    While the receiver is congested, only announcements and ends are sent. The rest waits for the receiver to catch up,
    not for a timer.
    """

    def __init__(
        self, to: UpdateTarget, how: Delivery, metrics: Metrics, on_finished: Callable[[TrackedCall], None]
    ) -> None:
        """`on_finished` is called with each call whose end was sent."""
        self._clock = to.clock or asyncio.get_running_loop().time
        self._call_later = to.call_later or asyncio.get_running_loop().call_later
        self._send = to.send
        self._metrics = metrics
        self._on_finished = on_finished
        self._full = how.full
        self._repeat_limit = how.repeat_limit
        self._interval = how.interval
        self._delay = how.interval or INTERVAL
        """Seconds until a failed send, or output that is held back, is tried again."""
        self._receiver = to.reader
        self._pending: dict[str, TrackedCall] = {}
        self._timer: Timer | None = None
        self._armed_for = 0.0
        self._is_sending = self._is_closed = self._awaits_drain = False

    def schedule(self, call: TrackedCall) -> None:
        """Send the changes of a call when the timer fires, or at once if the interval is 0."""
        if call.id in self._pending:
            self._metrics.coalesced += 1
        else:
            self._pending[call.id] = call
        if self._interval:
            self._arm(self._interval)
        else:
            self.send()

    def send_now(self, call: TrackedCall) -> None:
        """Send the changes of a call at once, after those of other calls, so that the order is kept."""
        if call.id in self._pending:
            self._metrics.coalesced += 1
            if call.sent is not None:  # an unannounced call keeps its place: calls are announced in order
                del self._pending[call.id]
        self._pending[call.id] = call
        self.send(flush_output=True)

    def send(self, *, flush_output: bool = False, even_if_congested: bool = False) -> None:
        """Send pending changes. `flush_output` includes appended output that is held back. Failed sends are retried."""
        if self._is_sending:  # `send` called back into the pacer; sending again would duplicate the update
            return
        self._is_sending, failed = True, self._metrics.failed
        only_urgent = self._receiver is not None and self._receiver.is_congested and not even_if_congested
        try:
            for call in list(self._pending.values()):
                if call.is_urgent or not only_urgent:
                    self._send_call(call, flush_output=flush_output)
        finally:
            self._is_sending = False
        if self._pending:
            self._wait(has_failed=self._metrics.failed > failed, only_urgent=only_urgent)

    def close(self) -> None:
        """Stop the timer."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _send_call(self, call: TrackedCall, *, flush_output: bool) -> None:
        """Send the announcement, the appended output and the changed fields of a call.

        The call stays pending if a send failed, if it changed meanwhile, or if it holds output.
        """
        changes = call.ledger.changes
        if call.has_output and not call.is_ended:
            is_due = self._clock() >= call.output_due
            call.release_output(is_due=is_due, is_enough=flush_output or call.pending_length >= OUTPUT_THRESHOLD)
        if call.sent is None and not self._deliver(call, call.announcement(), is_new=True):
            return
        while output := call.next_output():
            if not self._deliver(call, (call.sent_fields() if self._full else {}) | {"output": output}):
                return
        started = perf_counter()
        fields = call.difference(full=self._full, repeat_limit=self._repeat_limit)
        self._metrics.detecting += perf_counter() - started
        if fields and not self._deliver(call, fields):
            return
        if call.ledger.changes == changes and not call.holds_output:
            del self._pending[call.id]
            if call.is_ended:
                self._on_finished(call)

    def _deliver(self, call: TrackedCall, fields: dict[str, Any], *, is_new: bool = False) -> bool:
        """Send one update. Return whether that succeeded. An update with output delays the next one with output."""
        update = Update(call.id, is_new, **unwrap(fields))
        try:
            size = self._send(update)
        except Exception as error:  # noqa: BLE001 - after any error, the update is sent again
            self._metrics.failed += 1
            logger.debug("an update of call %s could not be sent and will be sent again: %r", call.id, error)
            return False
        now = self._clock()
        if call.tail is not None and "content" in fields:
            call.output_due = now + max(OUTPUT_INTERVAL, size / BYTES_PER_SECOND)
        elif "output" in fields:
            call.output_due = now + OUTPUT_INTERVAL
        self._metrics.count_sent(call.mark_sent(fields), size, now, is_new=is_new)
        return True

    def _wait(self, *, has_failed: bool, only_urgent: bool) -> None:
        """Wait for a congested receiver; otherwise set the timer, longer after each failure."""
        usual = self._interval or INTERVAL
        self._delay = min(MAX_RETRY_DELAY, self._delay * 2) if has_failed else usual
        if has_failed or not only_urgent:
            self._arm(self._delay)
        elif self._receiver is not None and not self._awaits_drain:
            self._awaits_drain = True
            self._receiver.when_drained(self._on_drained)

    def _on_drained(self) -> None:
        self._awaits_drain = False
        if not self._is_closed:
            self.send()

    def _tick(self) -> None:
        self._timer = None
        self.send()

    def _arm(self, delay: float) -> None:
        """Set the timer, unless it fires earlier already."""
        if self._is_closed:
            return
        if self._timer is not None:
            if self._armed_for <= delay:
                return
            self._timer.cancel()
        self._armed_for = delay
        self._timer = self._call_later(delay, self._tick)
