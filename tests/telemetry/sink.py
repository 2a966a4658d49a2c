"""A local OTLP endpoint that keeps what it receives."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Span:
    """A span as the endpoint received it."""

    def __init__(self, raw: Any) -> None:
        self.name: str = raw.name
        self.trace: str = raw.trace_id.hex()
        self.id: str = raw.span_id.hex()
        self.parent: str = raw.parent_span_id.hex()
        self.start: int = raw.start_time_unix_nano
        self.end: int = raw.end_time_unix_nano
        self.attributes = {each.key: _value(each.value) for each in raw.attributes}
        self.events: list[str] = [event.name for event in raw.events]
        self.failed: bool = raw.status.code == 2
        self.reason: str = raw.status.message

    def __getitem__(self, name: str) -> Any:
        return self.attributes[name]


class Sink:
    """The spans and metrics that an OTLP endpoint on the loopback interface has received."""

    def __init__(self) -> None:
        self.bodies: list[tuple[str, bytes]] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""

    @property
    def spans(self) -> list[Span]:
        """All spans, in the order in which they began."""
        found = [
            Span(raw)
            for path, body in self.bodies
            if path == "/v1/traces"
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for raw in scope.spans
        ]
        return sorted(found, key=lambda span: (span.start, -span.end))

    @property
    def service(self) -> str:
        path, body = self.bodies[0]
        assert path == "/v1/traces"
        attributes = ExportTraceServiceRequest.FromString(body).resource_spans[0].resource.attributes
        return next(each.value.string_value for each in attributes if each.key == "service.name")

    @property
    def metrics(self) -> dict[str, list[Any]]:
        """The points of each metric."""
        found: dict[str, list[Any]] = {}
        for path, body in self.bodies:
            if path == "/v1/metrics":
                for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                    for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                        points = metric.histogram.data_points or metric.sum.data_points
                        found.setdefault(metric.name, []).extend(points)
        return found

    def named(self, name: str) -> Span:
        """The one span of this name."""
        (span,) = (span for span in self.spans if span.name == name)
        return span

    def tree(self) -> list[str]:
        """The names of all spans, indented under their parents."""
        spans = self.spans

        def under(parent: str, depth: int) -> Iterator[str]:
            for span in spans:
                if span.parent == parent:
                    yield "  " * depth + span.name
                    yield from under(span.id, depth + 1)

        return list(under("", 0))


@contextmanager
def sink() -> Iterator[Sink]:
    """Serve an endpoint."""
    received = Sink()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                import gzip

                body = gzip.decompress(body)
            received.headers.append({name.lower(): value for name, value in self.headers.items()})
            received.bodies.append((self.path, body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind)
