"""What telemetry adds to a turn: nothing when it is off, little when it is on.

A turn is one request over the wire and the call of an async tool. Its CPU is that of all threads of the process from
the start of a run to its end, divided by the turns. In the second line the run also waits until its spans are with the
exporter, so that work which is put off until then counts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from bench import loops, mockserver
from bench.figure import Figure
from outrider import Agent, Limits, Session
from outrider.telemetry import Telemetry

TURNS = 20
ROUNDS = 15


class _Nowhere(SpanExporter):
    """Takes spans and drops them: the endpoint is not measured."""

    def export(self, spans: object) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def measure() -> Iterator[Figure]:
    """Wall time and CPU time of a streamed turn with one call, with telemetry and without; the best round of each."""
    yield from asyncio.run(_turns())


async def _turns() -> list[Figure]:
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(BatchSpanProcessor(_Nowhere()))
    meters = MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)
    telemetry = Telemetry(tracer_provider=tracers, meter_provider=meters)
    best: dict[str, tuple[float, float]] = {}
    with mockserver.running() as url:
        for path in ("", "drip"):
            model = loops.adapter(url if not path else f"{url}/{path}", "openai", f"turns-{TURNS}")
            for _ in range(ROUNDS):
                for name, observer in (("off", None), ("on", telemetry), ("sent", telemetry)):
                    agent = Agent(model, tools=[loops.ANSWER], limits=Limits(max_turns=TURNS, max_repeats=None))
                    took = await _run(Session(agent, observer=observer), tracers if name == "sent" else None)
                    best[path + name] = min(best.get(path + name, took), took)
    tracers.shutdown()
    meters.shutdown()
    wall_off, wall_on = best["dripoff"][0], best["dripon"][0]
    off, on, sent = (best[name][1] for name in ("off", "on", "sent"))
    added = f"{(on - off) * 1e6:.0f} µs beside {off * 1e6:.0f}"
    return [
        Figure(
            "a turn of a slow stream with telemetry / without",
            wall_on / wall_off,
            "x",
            1.05,
            f"{wall_off * 1e3:.0f} ms",
        ),
        Figure("CPU of a turn with telemetry / without", on / off, "x", 1.05, added),
        Figure("the same, with the export of its spans", sent / off, "x", 1.05),
    ]


async def _run(session: Session, flushed: TracerProvider | None) -> tuple[float, float]:
    """Return the wall time and the CPU time of a turn, in seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = await session.run("go")
    if flushed:
        flushed.force_flush()
    if result.status == "error":
        raise RuntimeError(result.error)
    return (time.perf_counter() - wall) / result.turns, (time.process_time() - cpu) / result.turns
