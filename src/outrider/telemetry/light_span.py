"""A span that takes a fifth of the time of the SDK's, and that exporters cannot tell from one."""

from __future__ import annotations

from collections.abc import Mapping
from time import time_ns
from typing import TYPE_CHECKING, Any

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import Span, SpanContext, SpanKind, Status, StatusCode, get_current_span
from opentelemetry.util.types import AnyValue, Attributes

if TYPE_CHECKING:
    from outrider.telemetry.spans import LightSpans


class LightSpan(Span):
    """Has what spans of ours need. If a tool adds to it, it becomes a span of the SDK, with its limits and checks."""

    def __init__(
        self,
        spans: LightSpans,
        name: str,
        around: Context,
        kind: SpanKind,
        attributes: dict[str, Any],
        started: int,
    ) -> None:
        self._spans = spans
        self._name = name
        self._context: SpanContext | None = None
        self._around = around
        self._kind = kind
        self._attributes = attributes
        self._started = started
        self._ended = 0
        self._full: Span | None = None

    def get_span_context(self) -> SpanContext:
        """Return the ids. They are made when they are needed, which for most spans is when they are handed over."""
        if self._context is None:
            with self._spans.lock:  # tools may run in threads
                self._context = self._context or self._spans.new_context()
        return self._context

    @property
    def _parent(self) -> SpanContext:
        return get_current_span(self._around).get_span_context()

    def is_recording(self) -> bool:
        """Return whether the span has not ended."""
        return not self._ended

    def end(self, end_time: int | None = None) -> None:
        """End the span. Exporters get it a moment later."""
        if self._ended:
            return
        self._ended = end_time or time_ns()
        if self._full:
            self._full.end(self._ended)
        else:
            self._spans.later(self._hand_over)

    def _hand_over(self) -> None:
        spans = self._spans
        spans.processor.on_end(
            ReadableSpan(
                self._name,
                self.get_span_context(),
                self._parent,
                spans.resource,
                self._attributes,
                kind=self._kind,
                instrumentation_info=spans.info,
                start_time=self._started,
                end_time=self._ended,
                instrumentation_scope=spans.scope,
            )
        )

    # Additions

    @property
    def _writable(self) -> Span:
        """A span of the SDK with the same ids. It is exported in place of this one, unless this one has ended."""
        context, parent = self.get_span_context(), self._parent
        with self._spans.lock:
            if self._full is None:
                self._full = self._spans.full(self._name, context, parent, self._kind, self._attributes, self._started)
            return self._full

    def __getattr__(self, name: str) -> Any:
        """Return what else a span of the SDK has: `name`, `attributes`, `start_time`."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._writable, name)

    def set_attributes(self, attributes: Mapping[str, AnyValue]) -> None:
        """Set attributes."""
        self._writable.set_attributes(attributes)

    def set_attribute(self, key: str, value: AnyValue) -> None:
        """Set an attribute."""
        self._writable.set_attribute(key, value)

    def add_event(self, name: str, attributes: Attributes = None, timestamp: int | None = None) -> None:
        """Add an event."""
        self._writable.add_event(name, attributes, timestamp)

    def add_link(self, context: SpanContext, attributes: Attributes = None) -> None:
        """Add a link to another span."""
        self._writable.add_link(context, attributes)

    def update_name(self, name: str) -> None:
        """Change the name."""
        self._writable.update_name(name)

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        """Set whether the operation failed."""
        self._writable.set_status(status, description)

    def record_exception(
        self,
        exception: BaseException,
        attributes: Attributes = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        """Add an exception as an event."""
        self._writable.record_exception(exception, attributes, timestamp, escaped)
