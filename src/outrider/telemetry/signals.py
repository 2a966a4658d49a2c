"""The tracer and the instruments of a `Telemetry`."""

from __future__ import annotations

from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from outrider.conversation.usage import Usage
from outrider.telemetry import conventions as names
from outrider.telemetry.recorded_content import RecordedContent
from outrider.telemetry.spans import Spans
from outrider.version import __version__


class Signals:
    """A tracer and the instruments, and the content to record if any is."""

    def __init__(self, tracers: TracerProvider, meters: MeterProvider, content: RecordedContent | None) -> None:
        self.content = content
        """None if the text of conversations is not recorded."""
        self.spans = Spans(tracers.get_tracer("outrider", __version__, names.SCHEMA_URL))
        meter = meters.get_meter("outrider", __version__, names.SCHEMA_URL)
        self._durations = meter.create_histogram(
            names.OPERATION_DURATION,
            unit="s",
            description="How long requests, calls and runs take.",
            explicit_bucket_boundaries_advisory=names.DURATION_BUCKETS,
        )
        self._tokens = meter.create_histogram(
            names.TOKEN_USAGE,
            unit="{token}",
            description="Input and output tokens of requests.",
            explicit_bucket_boundaries_advisory=names.TOKEN_BUCKETS,
        )
        self._cost = meter.create_counter(names.TOTAL_COST, unit="USD", description="What requests cost.")

    def count_duration(self, nanoseconds: int, about: dict[str, str], around: Context, error: str = "") -> None:
        """Count how long an operation took."""
        self._durations.record(nanoseconds / 1e9, {**about, names.ERROR_TYPE: error} if error else about, around)

    def count_usage(self, usage: Usage, about: dict[str, str], around: Context) -> None:
        """Count the tokens and the cost of a request."""
        self._tokens.record(usage.input_tokens, {**about, names.TOKEN_TYPE: "input"}, around)
        self._tokens.record(usage.output_tokens, {**about, names.TOKEN_TYPE: "output"}, around)
        if usage.cost:
            self._cost.add(usage.cost, about, around)


def usage_attributes(usage: Usage) -> dict[str, int | float]:
    """Return the tokens and the cost of a request as attributes of its span; what is zero is left out."""
    found: dict[str, int | float] = {names.INPUT_TOKENS: usage.input_tokens, names.OUTPUT_TOKENS: usage.output_tokens}
    if usage.cached_tokens:
        found[names.CACHE_READ_TOKENS] = usage.cached_tokens
    if usage.cache_write_tokens:
        found[names.CACHE_CREATION_TOKENS] = usage.cache_write_tokens
    if usage.reasoning_tokens:
        found[names.REASONING_TOKENS] = usage.reasoning_tokens
    if usage.cost is not None:
        found[names.COST] = usage.cost
    return found
