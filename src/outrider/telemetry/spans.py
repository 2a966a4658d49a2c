"""How spans are made: by the tracer, or inside a run by a shorter way that gives the same spans."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.trace import Span as SdkSpan
from opentelemetry.sdk.trace import SynchronousMultiSpanProcessor
from opentelemetry.sdk.trace import Tracer as SdkTracer
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_ON,
    ParentBased,
    ParentBasedTraceIdRatio,
    Sampler,
    TraceIdRatioBased,
)
from opentelemetry.trace import Span, SpanContext, SpanKind, Tracer

from outrider.telemetry.light_span import LightSpan
from outrider.telemetry.outbox import Outbox

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
