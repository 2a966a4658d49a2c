"""The span of one request to the model. It covers all attempts, as the conventions say."""

from __future__ import annotations

from time import time_ns
from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, Status, StatusCode

from outrider.conversation.messages import Message
from outrider.conversation.usage import Usage
from outrider.runtime.events import ReplyDiscarded, Retrying
from outrider.telemetry import conventions as names
from outrider.telemetry.signals import Signals, usage_attributes
from outrider.telemetry.spans import Spans


class RequestSpan:
    """Collects what is known of a request. The span is made when the request has ended: nothing is inside it."""

    def __init__(
        self, signals: Signals, spans: Spans, about: dict[str, str], parent: Context, input: list[Message]
    ) -> None:
        self._signals = signals
        self._spans = spans
        self._about = {names.OPERATION_NAME: names.CHAT, **about}
        self._parent = parent
        self._started = time_ns()
        self._first_chunk = 0
        self._usage = Usage()
        self._attempts: list[tuple[str, dict[str, Any], int]] = []
        self._input = input

    def begin_at(self, moment: int) -> None:
        """Set when the request began, in nanoseconds. What came before was not part of it."""
        self._started, self._first_chunk = moment, 0

    def delta(self) -> None:
        """Take a part of the reply."""
        if not self._first_chunk:
            self._first_chunk = time_ns()

    def retry(self, event: Retrying) -> None:
        """Take a failed attempt. Its reason may quote content, so that the delay alone is recorded."""
        self._attempts.append((names.RETRY, {"attempt": event.attempt, "delay": event.delay}, time_ns()))

    def discard(self, event: ReplyDiscarded) -> None:
        """Take a reply that broke off. Its tokens are counted."""
        self._usage += event.usage or Usage()
        self._attempts.append((names.DISCARDED, {}, time_ns()))

    def finish(self, usage: Usage | None, reply: Message | None = None, error: str = "", reason: str = "") -> None:
        """Make the span. `error` is the type of a failure, `reason` its text."""
        self._spans.later(self._make, time_ns(), usage, reply, error, reason)

    def _make(self, ended: int, usage: Usage | None, reply: Message | None, error: str, reason: str) -> None:
        usage = self._usage + (usage or Usage())
        attributes: dict[str, Any] = {**self._about, **usage_attributes(usage)}
        if self._first_chunk:
            attributes[names.TIME_TO_FIRST_CHUNK] = (self._first_chunk - self._started) / 1e9
        if reply and reply.has_tool_calls:  # events do not say why another reply ended
            attributes[names.FINISH_REASONS] = ("tool_call",)
        if content := self._signals.content:
            if self._input:
                attributes[names.INPUT_MESSAGES] = content.messages(self._input)
            if reply:
                attributes[names.OUTPUT_MESSAGES] = content.messages([reply])
        if error:
            attributes[names.ERROR_TYPE] = error
        name = f"{names.CHAT} {self._about[names.REQUEST_MODEL]}"
        span = self._spans.start(name, self._parent, SpanKind.CLIENT, attributes, self._started)
        for name, fields, moment in self._attempts:
            span.add_event(name, fields, moment)
        if error:
            span.set_status(Status(StatusCode.ERROR, reason))
        span.end(ended)
        self._signals.count_duration(ended - self._started, self._about, self._parent, error)
        self._signals.count_usage(usage, self._about, self._parent)
