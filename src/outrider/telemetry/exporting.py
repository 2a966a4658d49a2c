"""Providers of OpenTelemetry's SDK, set up by the standard `OTEL_*` variables.

The SDK and the exporter read most of them: endpoint, headers, time-out, resource, sampler. The two that choose an
exporter are read here, because the SDK leaves them to a program.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from outrider.errors import ConfigError

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

_EXPORTERS = ("otlp", "console", "none")


def tracer_provider(*, at_exit: bool) -> TracerProvider:
    """Return a provider that sends spans in the background, and if `at_exit` at the end. Raises ConfigError."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter

    exporter: SpanExporter
    provider = TracerProvider(resource=_resource(), shutdown_on_exit=at_exit)
    match _chosen("OTEL_TRACES_EXPORTER"):
        case "otlp":
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            _check_protocol("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
            exporter = OTLPSpanExporter()
        case "console":
            exporter = ConsoleSpanExporter()
        case _:
            return provider
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def meter_provider(*, at_exit: bool) -> MeterProvider:
    """Return a provider that sends metrics each minute, and if `at_exit` at the end. Raises ConfigError."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, MetricExporter, PeriodicExportingMetricReader

    exporter: MetricExporter
    match _chosen("OTEL_METRICS_EXPORTER"):
        case "otlp":
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

            _check_protocol("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL")
            exporter = OTLPMetricExporter()
        case "console":
            exporter = ConsoleMetricExporter()
        case _:
            return MeterProvider(resource=_resource(), shutdown_on_exit=at_exit)
    reader = PeriodicExportingMetricReader(exporter)
    return MeterProvider([reader], resource=_resource(), shutdown_on_exit=at_exit)


def _resource() -> Resource:
    """Return the resource of the variables, under the name `outrider` unless they name the service."""
    from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource

    return Resource({SERVICE_NAME: "outrider"}).merge(OTELResourceDetector().detect())


def _chosen(variable: str) -> str:
    chosen = os.environ.get(variable, "").strip() or "otlp"
    if chosen not in _EXPORTERS:
        raise ConfigError(f"{variable} is {chosen!r}; it must be otlp, console or none")
    return chosen


def _check_protocol(variable: str) -> None:
    for name in (variable, "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if protocol := os.environ.get(name, "").strip():
            if protocol != "http/protobuf":
                raise ConfigError(
                    f"{name} is {protocol!r}, but Outrider sends OTLP as http/protobuf only. Remove the variable, or "
                    "pass a tracer_provider and a meter_provider with exporters of your own to Telemetry"
                )
            return
