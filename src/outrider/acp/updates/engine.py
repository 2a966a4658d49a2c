"""The update engine: each change of a tool call reaches the observer once, as the smallest update that carries it.

For every call there is a wanted state and a sent state; what is written is the difference by value. Changes wait for
one timer and go out together: of one call as one update, in which the later value of a field counts. The end of a call
is written at once, after whatever waits. The order in which an observer sees changes is the order in which they
happened. State counts as sent only when the write succeeded.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, Literal

from msgspec import UNSET

from outrider.acp.updates.call_state import (
    FIELDS,
    FINAL,
    CallState,
    Item,
    Status,
    Text,
    check_status,
    is_transition,
)
from outrider.acp.updates.metrics import Metrics
from outrider.acp.updates.send_queue import INTERVAL, CallLater, SendQueue, logger
from outrider.acp.updates.size_estimates import size_of_items
from outrider.acp.updates.tracked_call import REPEAT_LIMIT, TrackedCall, check_fields
from outrider.acp.updates.update import Update
from outrider.text import clean


def _never() -> bool:
    return False


class Engine:
    """The calls of one observer. To be used from the thread of its loop alone."""

    def __init__(
        self,
        send: Callable[[Update], int],
        *,
        appends: bool = False,
        full: bool = False,
        repeat_limit: int = REPEAT_LIMIT,
        interval: float = INTERVAL,
        format_output: Callable[[str], str] = str,
        congested: Callable[[], bool] = _never,
        clock: Callable[[], float] | None = None,
        call_later: CallLater | None = None,
    ) -> None:
        """`send` writes one update and gives the bytes it took; if it raises, the update is sent again later.

        `full` puts every field into every update. Otherwise the end of a call repeats unchanged content and locations
        of up to `repeat_limit` bytes. Changes wait `interval` seconds for others; with 0 each is
        written at once. `format_output` makes the text of an item from what a command has printed.
        """
        self._appends = appends
        self._format_output = format_output
        self._full = full
        self._repeat_limit = repeat_limit
        self._metrics = Metrics()
        self._outbox = SendQueue(
            send,
            self._metrics,
            self._forget,
            full=full,
            repeat_limit=repeat_limit,
            interval=interval,
            congested=congested,
            clock=clock,
            call_later=call_later,
        )
        self._calls: dict[str, TrackedCall] = {}
        self._told: set[str] = set()

    @property
    def metrics(self) -> Metrics:
        """What was wanted and what was sent, up to now."""
        for call in self._calls.values():
            call.ledger.settle(self._metrics)
        return self._metrics

    def state(self, id: str) -> CallState | None:
        """What is to be seen of a call that is not over, or None."""
        call = self._calls.get(id)
        return None if call is None or call.is_ended else call.state

    def is_small(self, content: tuple[Item, ...]) -> bool:
        """Whether content is small enough to be sent more than once."""
        return self._full or size_of_items(content) <= self._repeat_limit

    def announce(self, state: CallState) -> bool:
        """A call is first seen. Announced again, it is a change."""
        fields = {name: getattr(state, name) for name in FIELDS}
        if state.id in self._calls or state.id in self._told:
            return self.change(state.id, **fields)
        if not state.id:
            raise ValueError("a call needs an id, by which its changes find it")
        call = TrackedCall(state.id, self._format_output)
        self._take(call, fields | {"status": _sendable(check_status(state.status))})
        self._calls[state.id] = call
        call.is_ended = call.wanted["status"] in FINAL
        if call.is_ended:
            self._outbox.now(call)
        else:
            self._outbox.later(call)
        return True

    def change(self, id: str, **fields: Any) -> bool:
        """The call is to look so from now on; whether that was accepted. None and UNSET leave a field as it is."""
        check_fields(fields)
        call = self._calls.get(id)
        if call is None or call.is_ended:
            return self._refuse(id)
        status = fields.get("status")
        before = call.wanted["status"]
        if status not in (None, UNSET, before):
            if check_status(status) in FINAL:
                return self.finish(id, **fields)
            if not is_transition(before, status):
                self._later(call, self._take(call, fields | {"status": None}))
                return self._refuse(id, f"it was {before}, and cannot go back to {status}")
        return self._later(call, self._take(call, fields))

    def append(self, id: str, text: str) -> bool:
        """The command of the call has printed more; whether that was accepted."""
        call = self._calls.get(id)
        if call is None or call.is_ended:
            return self._refuse(id)
        if text and self._appends:
            call.queue(clean(text), self._metrics)
        elif text:
            call.print(clean(text), self._metrics)
        call.ledger.changes += 1
        return self._later(call, bool(text))

    def finish(self, id: str, status: Status, *, exit_code: int | None = None, **fields: Any) -> bool:
        """The end of a call, written at once; whether it was accepted.

        Without a content, it ends with the one it had, and with what was printed, as far as that is kept. A call that
        was not written before is announced first: some observers show content only when an update brings it.
        """
        check_fields(fields)
        if check_status(status) not in FINAL:
            raise ValueError(f"a call does not end as {status}; it ends as one of: {', '.join(sorted(FINAL))}")
        call = self._calls.get(id)
        if call is None or call.is_ended:
            return self._refuse(id)
        if call.sent is None:
            self._outbox.hurry()
        if fields.get("content", UNSET) in (None, UNSET):
            fields["content"] = call.final_content()
        self._take(call, fields | {"status": _sendable(status)})
        if self._appends and (call.prints or exit_code is not None):
            call.exit_code = exit_code
        call.is_ended = True
        self._outbox.now(call)
        return True

    def end_open_calls(self, reason: str, status: Status = "failed") -> None:
        """Every call that is not over ends so, with the reason after its content."""
        for call in list(self._calls.values()):
            if not call.is_ended:
                self.finish(call.id, status, content=(*call.final_content(), Text(reason)))

    def flush(self) -> None:
        """Write everything that waits, in the order in which it first changed, even if the observer reads slowly."""
        self._outbox.write(hurried=True)

    def close(self) -> None:
        """End the timer. What waits is not written: flush first."""
        self._outbox.close()

    def _refuse(self, id: str, why: str = "") -> Literal[False]:
        self._metrics.refused += 1
        why = why or ("it is over" if id in self._calls or id in self._told else "it was never announced")
        logger.debug("a change of call %s was refused: %s", id, why)
        return False

    def _take(self, call: TrackedCall, fields: dict[str, Any]) -> bool:
        started = perf_counter()
        taken = call.take(fields, self._metrics)
        self._metrics.detecting += perf_counter() - started
        return taken

    def _forget(self, call: TrackedCall) -> None:
        call.ledger.settle(self._metrics)
        self._told.add(call.id)
        del self._calls[call.id]

    def _later(self, call: TrackedCall, taken: bool) -> Literal[True]:
        if taken:
            self._outbox.later(call)
        else:
            self._metrics.suppressed += 1
        return True


def _sendable(status: Status) -> Status:
    """Replace "cancelled", which the protocol does not have, with "failed"."""
    return "failed" if status == "cancelled" else status
