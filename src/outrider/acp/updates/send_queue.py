"""The queue of changed calls: one timer for all of them, and sends in the order of the changes."""

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
"""Default seconds for which changes are collected."""
MAX_RETRY_DELAY = 5.0
"""Seconds between two attempts when sending fails repeatedly."""


class Timer(Protocol):
    """The handle that `call_later` returns."""

    def cancel(self) -> object:
        """Cancel the call."""


CallLater: TypeAlias = Callable[[float, Callable[[], None]], Timer]


class SendQueue:
    """The calls with unsent changes, in the order of their first change."""

    def __init__(
        self,
        send: Callable[[Update], int],
        metrics: Metrics,
        on_finished: Callable[[TrackedCall], None],
        *,
        full: bool,
        repeat_limit: int,
        interval: float,
        congested: Callable[[], bool],
        clock: Callable[[], float] | None,
        call_later: CallLater | None,
    ) -> None:
        """`on_finished` is called with each call whose end was sent."""
        self.clock = clock or asyncio.get_running_loop().time
        self._call_later = call_later or asyncio.get_running_loop().call_later
        self._send = send
        self._metrics = metrics
        self._on_finished = on_finished
        self._full = full
        self._repeat_limit = repeat_limit
        self._interval = interval
        self._retry_interval = self._delay = interval or INTERVAL
        """Seconds until a failed send, or output that is held back, is tried again."""
        self._congested = congested
        self._pending: dict[str, TrackedCall] = {}
        self._timer: Timer | None = None
        self._armed_for = 0.0
        self._is_sending = self._is_closed = False

    def schedule(self, call: TrackedCall) -> None:
        """Send the changes of a call when the timer fires, or at once if the interval is 0."""
        if call.id in self._pending:
            self._metrics.coalesced += 1
        else:
            self._pending[call.id] = call
        if self._interval:
            self._arm(self._interval)
        else:
            self.send(only_urgent=self._congested())

    def send_now(self, call: TrackedCall) -> None:
        """Send the changes of a call at once, after those of other calls, so that the order is kept."""
        if call.id in self._pending:
            self._metrics.coalesced += 1
            if call.sent is not None:  # an unannounced call keeps its place: calls are announced in order
                del self._pending[call.id]
        self._pending[call.id] = call
        self.send_pending()

    def send_pending(self) -> None:
        """Send all changes without waiting for the timer; while congested, only announcements and ends."""
        self.send(only_urgent=self._congested(), flush_output=True)

    def send(self, *, only_urgent: bool = False, flush_output: bool = False) -> None:
        """Send pending changes. `flush_output` includes appended output that is held back. Failed sends are retried."""
        if self._is_sending:  # `send` called back into the queue; sending again would duplicate the update
            return
        self._is_sending, failed = True, self._metrics.failed
        try:
            for call in list(self._pending.values()):
                if call.is_urgent or not only_urgent:
                    self._send_call(call, flush_output=flush_output)
        finally:
            self._is_sending = False
        self._delay = min(MAX_RETRY_DELAY, self._delay * 2) if self._metrics.failed > failed else self._retry_interval
        if self._pending:
            self._arm(self._delay)

    def close(self) -> None:
        """Stop the timer."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _send_call(self, call: TrackedCall, *, flush_output: bool) -> None:
        """Send the changes of a call. It stays pending if a send failed, if it changed meanwhile, or holds output."""
        changes = call.ledger.changes
        if call.has_output:
            call.release_output(self.clock(), flush=flush_output)
        is_sent = self._send_updates(call)
        if is_sent and call.ledger.changes == changes and not call.holds_output:
            del self._pending[call.id]
            if call.is_ended:
                self._on_finished(call)

    def _send_updates(self, call: TrackedCall) -> bool:
        """Send the announcement, the appended output and the changed fields. Return whether all sends succeeded."""
        if call.sent is None and not self._deliver(call, call.announcement(), is_new=True):
            return False
        while output := call.next_output():
            if not self._deliver(call, (call.sent_fields() if self._full else {}) | {"output": output}):
                return False
        started = perf_counter()
        fields = call.difference(full=self._full, repeat_limit=self._repeat_limit)
        self._metrics.detecting += perf_counter() - started
        return not fields or self._deliver(call, fields)

    def _deliver(self, call: TrackedCall, fields: dict[str, Any], *, is_new: bool = False) -> bool:
        update = Update(call.id, is_new, **unwrap(fields))
        try:
            size = self._send(update)
        except Exception as error:  # noqa: BLE001 - after any error, the update is sent again
            self._metrics.failed += 1
            logger.debug("an update of call %s could not be sent and will be sent again: %r", call.id, error)
            return False
        self._metrics.count_sent(call.mark_sent(fields), size, self.clock(), is_new=is_new)
        return True

    def _tick(self) -> None:
        self._timer = None
        self.send(only_urgent=self._congested())

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
