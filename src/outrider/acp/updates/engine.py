"""The update engine: each change of a tool call reaches the observer once, in the smallest possible update.

For every call there is a wanted state and a sent state; an update is the difference by value. One timer sends all
changes: those of one call as one update, in which the latest value of a field wins. The end of a call is sent at once,
after all queued changes. The observer sees changes in the order in which they happened. A state counts as sent only if
the send succeeded.
"""

from __future__ import annotations

from collections.abc import Container
from time import perf_counter
from typing import Any, Literal

from msgspec import UNSET

from outrider.acp.updates.call_state import (
    FIELDS,
    FINAL,
    CallState,
    Item,
    Status,
    Terminal,
    Text,
    check_status,
    is_transition,
    size_of_items,
)
from outrider.acp.updates.metrics import Metrics
from outrider.acp.updates.pacer import Delivery, Pacer, UpdateTarget, logger
from outrider.acp.updates.tracked_call import TrackedCall, check_fields
from outrider.text import clean


class Engine:
    """Tracks the calls of one observer. Use it only in the thread of its event loop."""

    def __init__(self, to: UpdateTarget, how: Delivery = Delivery()) -> None:  # noqa: B008 - it is frozen
        self._how = how
        self._metrics = Metrics()
        self._pacer = Pacer(to, how, self._metrics, self._forget)
        self._calls: dict[str, TrackedCall] = {}
        self._finished_ids: set[str] = set()

    @property
    def metrics(self) -> Metrics:
        for call in self._calls.values():
            call.ledger.settle(self._metrics)
        return self._metrics

    def state(self, id: str) -> CallState | None:
        """Return the wanted state of an open call, or None."""
        call = self._calls.get(id)
        return None if call is None or call.is_ended else call.state

    def is_small(self, content: tuple[Item, ...]) -> bool:
        """Return whether content is small enough to be sent more than once."""
        return self._how.full or size_of_items(content) <= self._how.repeat_limit

    def announce(self, state: CallState) -> bool:
        """Announce a call; change it if it is known already. Return whether that was accepted."""
        fields = {name: getattr(state, name) for name in FIELDS}
        if state.id in self._calls or state.id in self._finished_ids:
            return self.change(state.id, **fields)
        if not state.id:
            raise ValueError("a call needs an id")
        call = TrackedCall(state.id, self._how.format_output)
        self._apply(call, fields | {"status": _sendable(check_status(state.status))})
        self._calls[state.id] = call
        call.is_ended = call.wanted["status"] in FINAL
        if call.is_ended:
            self._pacer.send_now(call)
        else:
            self._pacer.schedule(call)
        return True

    def change(self, id: str, **fields: Any) -> bool:
        """Change fields of a call. Return whether that was accepted. None and UNSET leave a field as it is."""
        check_fields(fields)
        call = self._calls.get(id)
        if call is None or call.is_ended:
            return self._reject(id)
        status = fields.get("status")
        before = call.wanted["status"]
        if status not in (None, UNSET, before):
            if check_status(status) in FINAL:
                return self.finish(id, **fields)
            if not is_transition(before, status):
                self._schedule(call, self._apply(call, fields | {"status": None}))
                return self._reject(id, f"its status cannot go from {before} back to {status}")
        return self._schedule(call, self._apply(call, fields))

    def append(self, id: str, text: str) -> bool:
        """Append output of the call's command. Return whether that was accepted."""
        call = self._calls.get(id)
        if call is None or call.is_ended:
            return self._reject(id)
        if text:
            call.add_output(clean(text), self._metrics, appends=self._how.appends)
            self._pacer.schedule(call)
        return True

    def finish(self, id: str, status: Status, *, exit_code: int | None = None, **fields: Any) -> bool:
        """End a call and send that at once. Return whether that was accepted.

        Without new content, the call keeps its content, followed by the output that is kept. A call that was not sent
        before is announced first: some observers show content only if an update has it.
        """
        check_fields(fields)
        if check_status(status) not in FINAL:
            raise ValueError(f"a call cannot end as {status}; use one of: {', '.join(sorted(FINAL))}")
        call = self._calls.get(id)
        if call is None or call.is_ended:
            return self._reject(id)
        if call.sent is None:
            self._pacer.send(flush_output=True)
        if fields.get("content", UNSET) in (None, UNSET):
            fields["content"] = call.final_content()
        self._apply(call, fields | {"status": _sendable(status)})
        has_terminal = call.has_output or Terminal(call.id) in call.wanted["content"]
        if self._how.appends and (has_terminal or exit_code is not None):
            call.exit_code = exit_code
        call.is_ended = True
        self._pacer.send_now(call)
        return True

    def end_open_calls(
        self, reason: str, status: Status = "failed", ids: Container[str] | None = None, but: Container[str] = ()
    ) -> None:
        """End every open call, or those with these ids, with this status, and with the reason after its content."""
        for call in list(self._calls.values()):
            if not call.is_ended and (ids is None or call.id in ids) and call.id not in but:
                self.finish(call.id, status, content=(*call.final_content(), Text(reason)))

    def forget_ended(self) -> None:
        """Let calls that have ended be announced again, as if they were new."""
        self._finished_ids.clear()

    def flush(self) -> None:
        """Send all queued changes, in the order of their first change, even if the observer reads slowly."""
        self._pacer.send(flush_output=True, even_if_congested=True)

    def close(self) -> None:
        """Stop the timer. Queued changes are not sent: flush first."""
        self._pacer.close()

    def _reject(self, id: str, reason: str = "") -> Literal[False]:
        self._metrics.refused += 1
        is_known = id in self._calls or id in self._finished_ids
        reason = reason or ("it has ended" if is_known else "it was never announced")
        logger.debug("a change of call %s was rejected: %s", id, reason)
        return False

    def _apply(self, call: TrackedCall, fields: dict[str, Any]) -> bool:
        started = perf_counter()
        has_changed = call.apply(fields, self._metrics)
        self._metrics.detecting += perf_counter() - started
        return has_changed

    def _forget(self, call: TrackedCall) -> None:
        call.ledger.settle(self._metrics)
        self._finished_ids.add(call.id)
        del self._calls[call.id]

    def _schedule(self, call: TrackedCall, has_changed: bool) -> Literal[True]:
        if has_changed:
            self._pacer.schedule(call)
        else:
            self._metrics.suppressed += 1
        return True


def _sendable(status: Status) -> Status:
    """Replace "cancelled", which the protocol does not have, with "failed"."""
    return "failed" if status == "cancelled" else status
