"""`Telemetry`: an observer that makes OpenTelemetry's spans and metrics from the events of sessions."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

from outrider.errors import ConfigError, install_extra

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk.metrics import MeterProvider as SdkMeterProvider
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider
    from opentelemetry.trace import TracerProvider

    from outrider.runtime.observers import Observer
    from outrider.runtime.session import Session
    from outrider.telemetry.session_trace import Subject

_EXPORTERS = ("otlp", "console", "none")
"""The values of the two variables that choose an exporter: the SDK leaves them to a program, and reads the others."""


class Telemetry:
    """Spans and metrics of any number of sessions: `agent.run("…", observer=Telemetry())`.

    They go where the program's own telemetry goes, if it has set up OpenTelemetry; otherwise to the OTLP endpoint of
    the standard `OTEL_*` variables. `capture` records the text of prompts, replies, calls and results too, without
    keys for models. Needs the extra `otel`; raises ConfigError without it.
    """

    ends_with_process = True
    """Whether the end of the process waits until all is sent, if `close` was not called."""

    def __init__(
        self,
        *,
        capture: bool = False,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        _check_installed()
        from outrider.providers.credentials.secrets import configured
        from outrider.telemetry.signals import RecordedContent, Signals

        self._own: list[TracerProvider | MeterProvider] = []
        """The providers that this object has made, and ends."""
        self._secrets = tuple(configured())
        tracers = tracer_provider or self._tracers()
        meters = meter_provider or self._meters()
        self._signals = Signals(tracers, meters, RecordedContent(self._secrets) if capture else None)

    def observe(self, session: Session) -> Observer:
        """Return the observer of a session. `Session` calls this for `observer=`."""
        from outrider.telemetry.session_trace import SessionTrace, Subject

        def subject() -> Subject:
            return Subject(session.id, session.agent.name, session.provider.name, session.agent.system_prompt)

        return SessionTrace(self._signals, subject, self._secrets)

    def flush(self) -> None:
        """Send what is collected, and wait for it."""
        for provider in self._own:
            provider.force_flush()  # type: ignore[union-attr]  # they are those of the SDK

    def close(self) -> None:
        """Send what is collected and stop. Providers of the program stay open. The end of the process closes too."""
        while self._own:
            self._own.pop(0).shutdown()  # type: ignore[union-attr]

    def __enter__(self) -> Telemetry:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tracers(self) -> TracerProvider:
        from opentelemetry import trace

        if not isinstance(found := trace.get_tracer_provider(), trace.ProxyTracerProvider):
            return found
        self._own.append(made := tracer_provider(at_exit=self.ends_with_process))
        return made

    def _meters(self) -> MeterProvider:
        from opentelemetry import metrics

        found = metrics.get_meter_provider()
        if type(found).__name__ != "_ProxyMeterProvider":  # it has no public name
            return found
        self._own.append(made := meter_provider(at_exit=self.ends_with_process))
        return made


def _check_installed() -> None:
    for name in ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"):
        try:
            import_module(name)
        except ImportError as error:
            raise ConfigError(f"telemetry needs OpenTelemetry ({error}): {install_extra('otel')}") from None


def tracer_provider(*, at_exit: bool) -> SdkTracerProvider:
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


def meter_provider(*, at_exit: bool) -> SdkMeterProvider:
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
