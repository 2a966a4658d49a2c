"""How spans are made: by the tracer, or inside a run by a shorter way that gives the same spans."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Lock
from time import time_ns
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, SynchronousMultiSpanProcessor
from opentelemetry.sdk.trace import Span as SdkSpan
from opentelemetry.sdk.trace import Tracer as SdkTracer
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased, ParentBasedTraceIdRatio, Sampler, TraceIdRatioBased
from opentelemetry.trace import Span, SpanContext, SpanKind, Status, StatusCode, Tracer, get_current_span
from opentelemetry.util.types import AnyValue, Attributes

from outrider.providers.debugging import logger

PACE = 0.05
"""Seconds that work waits at most. Turns of a model take longer, so that a turn's spans are made before the next."""


class Outbox:
    """Collects work and does it in one go: between the steps of a run the same work takes three times as long.

    The processor's caches have forgotten the code by then.
    """

    def __init__(self) -> None:
        self._work: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._failed = False

    def put(self, do: Callable[..., None], *args: Any) -> None:
        """Do this soon, after what was put before."""
        self._work.append((do, args))
        if self._timer is None:
            with suppress(RuntimeError):  # a tool in a thread has ended its span; the end of the run will do the work
                self._timer = asyncio.get_running_loop().call_later(PACE, self.empty)

    def empty(self) -> None:
        """Do all of it now, with what it puts here itself. A failure is logged, and the rest is done."""
        while self._work:
            do, args = self._work.popleft()
            try:
                do(*args)
            except Exception:  # noqa: BLE001 - as for observers: the session goes on
                if not self._failed:  # logged once: what fails for one span may fail for all
                    self._failed = True
                    logger.exception("telemetry lost a span or a measurement; the session goes on")
        if self._timer:
            self._timer.cancel()
            self._timer = None


class LightSpan(Span):
    """Has what spans of ours need. If a tool adds to it, it becomes a span of the SDK, with its limits and checks."""

    def __init__(
        self, spans: LightSpans, name: str, around: Context, kind: SpanKind, attributes: dict[str, Any], started: int
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


_MOST_ATTRIBUTES = 32
"""More than any span of ours has."""


class Spans:
    """Spans that the tracer makes."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def start(self, name: str, around: Context, kind: SpanKind, attributes: dict[str, Any], started: int) -> Span:
        """Begin a span. The attributes belong to it from then on."""
        return self._tracer.start_span(name, around, kind, attributes, start_time=started)

    def later(self, do: Callable[..., None], *args: Any) -> None:
        """Do the work on a span that has ended."""
        do(*args)

    def inside(self, run: Span) -> Spans:
        """Return how the spans inside a run are made."""
        if type(self._tracer) is SdkTracer and isinstance(run, SdkSpan) and _can_be_light(self._tracer, run):
            return LightSpans(self._tracer, run)
        return self

    def close(self) -> None:
        """Finish the work that was put off."""


class LightSpans(Spans):
    """Spans inside a run that the SDK records. They skip what the SDK has decided for the run already."""

    def __init__(self, tracer: SdkTracer, run: SdkSpan) -> None:
        super().__init__(tracer)
        self.resource = run.resource
        self.scope = run.instrumentation_scope
        self.info = tracer.instrumentation_info
        self.processor = tracer.span_processor
        self.lock = Lock()
        self._run = run
        self._trace = run.get_span_context()
        self._new_id = tracer.id_generator.generate_span_id
        self._outbox = Outbox()
        self.later = self._outbox.put  # type: ignore[method-assign]
        self.close = self._outbox.empty  # type: ignore[method-assign]

    def start(self, name: str, around: Context, kind: SpanKind, attributes: dict[str, Any], started: int) -> Span:
        """Begin a span."""
        return LightSpan(self, name, around, kind, attributes, started)

    def new_context(self) -> SpanContext:
        """Return the ids of a new span."""
        trace = self._trace
        return SpanContext(trace.trace_id, self._new_id(), False, trace.trace_flags, trace.trace_state)

    def full(
        self,
        name: str,
        context: SpanContext,
        parent: SpanContext,
        kind: SpanKind,
        attributes: dict[str, Any],
        started: int,
    ) -> Span:
        """Return a span of the SDK with these ids."""
        span = type(self._run)(
            name,
            context,
            parent,
            kind=kind,
            attributes=attributes,
            resource=self.resource,
            span_processor=self.processor,
            limits=self._run._limits,
            instrumentation_info=self.info,
            instrumentation_scope=self.scope,
        )
        span.start(started)
        return span


def _can_be_light(tracer: SdkTracer, run: SdkSpan) -> bool:
    """Return whether the program cannot tell the difference.

    A processor of its own may look at spans when they begin. A sampler of its own may treat each one differently.
    Limits may cut attributes, and the SDK may count spans. If another version of the SDK does not have what this
    reads, the answer is no.
    """
    try:
        processors = tracer.span_processor._span_processors
        limits = run._limits
        uncounted = type(tracer._tracer_metrics).__name__ == "NoOpTracerMetrics"
    except AttributeError:
        return False
    return (
        run.get_span_context().trace_flags.sampled
        and type(tracer.span_processor) is SynchronousMultiSpanProcessor
        and all(type(processor) is BatchSpanProcessor for processor in processors)
        and _follows_parent(tracer.sampler)
        and limits.max_span_attribute_length is None
        and (limits.max_span_attributes is None or limits.max_span_attributes >= _MOST_ATTRIBUTES)
        and uncounted
    )


def _follows_parent(sampler: Sampler) -> bool:
    """Return whether all spans under a recorded one are recorded."""
    if type(sampler) in (ParentBased, ParentBasedTraceIdRatio):
        return getattr(sampler, "_local_parent_sampled", None) is ALWAYS_ON
    return sampler is ALWAYS_ON or type(sampler) is TraceIdRatioBased
