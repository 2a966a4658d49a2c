"""`Telemetry`: an observer that makes OpenTelemetry's spans and metrics from the events of sessions."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from outrider.errors import ConfigError, install_extra

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from outrider.runtime.observers import Observer
    from outrider.runtime.session import Session
    from outrider.telemetry.session_trace import Subject


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
        from outrider.telemetry.recorded_content import RecordedContent
        from outrider.telemetry.signals import Signals

        self._own: list[TracerProvider | MeterProvider] = []
        """The providers that this object has made, and ends."""
        self._secrets = tuple(configured())
        tracers = tracer_provider or self._tracers()
        meters = meter_provider or self._meters()
        self._signals = Signals(tracers, meters, RecordedContent(self._secrets) if capture else None)

    def observe(self, session: Session) -> Observer:
        """Return the observer of a session. `Session` calls this for `observer=`."""
        from outrider.telemetry.session_trace import SessionTrace

        return SessionTrace(self._signals, lambda: _subject_of(session), self._secrets)

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

        from outrider.telemetry.exporting import tracer_provider

        if not isinstance(found := trace.get_tracer_provider(), trace.ProxyTracerProvider):
            return found
        self._own.append(made := tracer_provider(at_exit=self.ends_with_process))
        return made

    def _meters(self) -> MeterProvider:
        from opentelemetry import metrics

        from outrider.telemetry.exporting import meter_provider

        found = metrics.get_meter_provider()
        if type(found).__name__ != "_ProxyMeterProvider":  # it has no public name
            return found
        self._own.append(made := meter_provider(at_exit=self.ends_with_process))
        return made


def _subject_of(session: Session) -> Subject:
    from outrider.telemetry.session_trace import Subject

    return Subject(session.id, session.agent.name, session.provider.name, session.agent.system_prompt)


def _check_installed() -> None:
    for name in ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"):
        try:
            import_module(name)
        except ImportError as error:
            raise ConfigError(f"telemetry needs OpenTelemetry ({error}): {install_extra('otel')}") from None
