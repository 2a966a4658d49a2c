"""Spans that are made by the shorter way: exporters, tools and the program's own set-up cannot tell them apart."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Decision, ParentBasedTraceIdRatio, Sampler, SamplingResult

from outrider import Agent, Message, Usage
from outrider.errors import UnavailableError
from outrider.providers.base import Reply, StopReason
from outrider.telemetry import Telemetry
from outrider.telemetry.spans import LightSpan
from outrider.testing import ScriptedModel, call


class Recorded:
    """A provider of the SDK with a batch processor, and what was exported."""

    def __init__(self, **options: Any) -> None:
        self.provider = TracerProvider(shutdown_on_exit=False, **options)
        self._exporter = InMemorySpanExporter()
        self.provider.add_span_processor(BatchSpanProcessor(self._exporter, schedule_delay_millis=10))

    async def run(self, *tools: Any, capture: bool = False) -> dict[str, ReadableSpan]:
        """Run an agent that calls each tool once, and return the spans by name."""
        calls = [call(tool.__name__) for tool in tools]
        usage = Usage(input_tokens=100, output_tokens=7, cached_tokens=60, cost=0.5)
        asked = Reply(Message.assistant("Hm.", *calls), StopReason.TOOL_USE, usage)
        model = ScriptedModel([UnavailableError("busy", retryable=True, retry_after=0.01), asked, "Done."])
        await Agent(model, tools=tools).run("Go.", observer=self.telemetry(capture))
        self.provider.force_flush()
        return self.spans

    def telemetry(self, capture: bool = False) -> Telemetry:
        return Telemetry(tracer_provider=self.provider, meter_provider=NoOpMeterProvider(), capture=capture)

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        """What was exported so far. The second span of a name has a number."""
        found: dict[str, ReadableSpan] = {}
        for span in sorted(self._exporter.get_finished_spans(), key=lambda span: span.start_time):
            found[f"{span.name} 2" if span.name in found else span.name] = span
        return found


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    made = Recorded()
    yield made
    made.provider.shutdown()


async def look() -> str:
    """Look."""
    return "seen"


async def broken() -> str:
    """Break."""
    raise ValueError("no")


@pytest.mark.parametrize("options", [{}, {"sampler": ALWAYS_ON}, {"sampler": ParentBasedTraceIdRatio(1.0)}])
async def test_calls_get_light_spans(options: dict[str, Any]) -> None:
    kinds: list[type] = []

    async def which() -> str:
        """Look at the current span."""
        kinds.append(type(trace.get_current_span()))
        return ""

    recorded = Recorded(**options)
    await recorded.run(which)
    recorded.provider.shutdown()
    assert kinds == [LightSpan]


@pytest.mark.parametrize("capture", [False, True])
async def test_light_spans_are_exported_like_those_of_the_sdk(recorded: Recorded, capture: bool) -> None:
    plain = Recorded()
    plain.provider.add_span_processor(SpanProcessor())  # one that is not known: the tracer makes the spans
    light_spans = await recorded.run(look, broken, capture=capture)
    plain_spans = await plain.run(look, broken, capture=capture)
    plain.provider.shutdown()
    assert len(light_spans) == 7
    assert _bytes(light_spans) == _bytes(plain_spans)


def _bytes(spans: dict[str, ReadableSpan]) -> dict[str, bytes]:
    """Return the OTLP form of spans, without what differs between two runs: ids and times."""
    names = {span.context.span_id.to_bytes(8, "big"): name.encode() for name, span in spans.items()}
    found = {}
    for name, span in spans.items():
        request = encode_spans([span])
        (raw,) = request.resource_spans[0].scope_spans[0].spans
        assert raw.start_time_unix_nano <= raw.end_time_unix_nano
        raw.span_id, raw.parent_span_id = b"", names.get(raw.parent_span_id, raw.parent_span_id)
        raw.ClearField("trace_id")
        raw.ClearField("start_time_unix_nano")
        raw.ClearField("end_time_unix_nano")
        for event in raw.events:
            event.ClearField("time_unix_nano")
            for attribute in (each for each in event.attributes if each.key == "delay"):
                attribute.ClearField("value")
        for attribute in raw.attributes:
            if attribute.key in ("gen_ai.response.time_to_first_chunk", "gen_ai.conversation.id"):
                attribute.ClearField("value")
        found[name] = request.SerializeToString(deterministic=True)
    return found


async def test_a_tool_can_add_to_the_span_of_its_call(recorded: Recorded) -> None:
    async def measure() -> str:
        """Measure."""
        span = trace.get_current_span()
        assert span.name == "execute_tool measure"  # type: ignore[attr-defined]
        assert span.is_recording()
        span.set_attribute("size", 3)
        span.set_attributes({"unit": "m"})
        span.add_event("measured", {"times": 2})
        span.add_link(trace.SpanContext(1, 2, is_remote=True))
        span.record_exception(ValueError("odd"))
        span.update_name("measure it")
        return "3"

    spans = await recorded.run(measure)
    span = spans["measure it"]
    assert span.attributes["size"] == 3
    assert span.attributes["unit"] == "m"
    assert span.attributes["gen_ai.tool.name"] == "measure"
    assert [event.name for event in span.events] == ["measured", "exception"]
    assert span.links[0].context.span_id == 2
    assert span.parent == spans["turn 1"].context


async def test_additions_after_the_end_change_nothing(recorded: Recorded) -> None:
    kept: list[trace.Span] = []

    async def keep() -> str:
        """Keep the span."""
        kept.append(trace.get_current_span())
        return ""

    async def add() -> str:
        """Add to a span that has ended and may not be handed over yet."""
        kept[0].set_attribute("late", True)
        kept[0].end()
        return ""

    model = ScriptedModel([call("keep"), call("add"), "Done."])
    await Agent(model, tools=[keep, add]).run("Go.", observer=recorded.telemetry())
    recorded.provider.force_flush()
    assert not kept[0].is_recording()
    assert "late" not in recorded.spans["execute_tool keep"].attributes


async def test_a_tool_in_a_thread_may_end_its_span(recorded: Recorded) -> None:
    went_on = []

    def finish() -> str:
        """End the span of this call when nothing else waits to be handed over."""
        deadline = time.monotonic() + 60
        while "chat scripted" not in recorded.spans and time.monotonic() < deadline:
            time.sleep(0.01)
        trace.get_current_span().end(1)
        went_on.append(True)
        return ""

    spans = await recorded.run(finish)
    assert spans["execute_tool finish"].end_time == 1
    assert went_on


async def test_spans_are_exported_while_the_run_goes_on(recorded: Recorded) -> None:
    async def wait() -> str:
        """Wait until the request before this call is exported."""
        async with asyncio.timeout(60):
            while not any(name.startswith("chat") for name in recorded.spans):
                await asyncio.sleep(0.01)
        return ""

    spans = await recorded.run(wait)
    assert spans["execute_tool wait"].status.is_unset


async def test_a_failure_loses_one_span_and_not_the_rest() -> None:
    class Faulty(RandomIdGenerator):
        calls = 0

        def generate_span_id(self) -> int:
            self.calls += 1
            if self.calls == 2:  # the first is that of the run
                raise OSError("no randomness")
            return super().generate_span_id()

    recorded = Recorded(id_generator=Faulty())
    spans = await recorded.run(look)
    recorded.provider.shutdown()
    assert len(spans) == 5
    assert spans["invoke_agent agent"].attributes["outrider.run.status"] == "done"


async def test_a_processor_of_the_program_sees_every_span_begin(recorded: Recorded) -> None:
    class Marker(SpanProcessor):
        def on_start(self, span: Span, parent_context: Context | None = None) -> None:
            span.set_attribute("tenant", "acme")

    recorded.provider.add_span_processor(Marker())
    spans = await recorded.run(look)
    assert len(spans) == 6
    assert all(span.attributes["tenant"] == "acme" for span in spans.values())


async def test_a_sampler_of_the_program_is_asked_for_every_span() -> None:
    class NoCalls(Sampler):
        def should_sample(self, *args: Any, **kwargs: Any) -> SamplingResult:
            name = kwargs.get("name") or args[2]
            drop = name.startswith("execute_tool")
            return SamplingResult(Decision.DROP if drop else Decision.RECORD_AND_SAMPLE, kwargs.get("attributes"))

        def get_description(self) -> str:
            return "no calls"

    recorded = Recorded(sampler=NoCalls())
    spans = await recorded.run(look)
    recorded.provider.shutdown()
    assert set(spans) == {"invoke_agent agent", "turn 1", "turn 2", "chat scripted", "chat scripted 2"}


async def test_limits_of_the_program_apply_to_every_span() -> None:
    recorded = Recorded(span_limits=SpanLimits(max_span_attribute_length=4))
    spans = await recorded.run(look)
    recorded.provider.shutdown()
    assert spans["execute_tool look"].attributes["gen_ai.operation.name"] == "exec"
    assert spans["chat scripted"].attributes["gen_ai.request.model"] == "scri"
