"""The trace to which the current task belongs, as W3C Trace Context.

Telemetry sets it for each call of a tool. MCP servers and commands receive it, so that their own spans join the trace.
Nothing here needs OpenTelemetry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar

_current: ContextVar[Callable[[], Mapping[str, str]]] = ContextVar("trace_context", default=dict[str, str])


def trace_context() -> Mapping[str, str]:
    """Return `traceparent`, and `tracestate` if there is one; nothing if no trace is recorded."""
    return _current.get()()


def set_trace_context(fields: Callable[[], Mapping[str, str]]) -> None:
    """Set the fields for the current task, and for the tasks and threads that it starts from now on.

    They are a function, because few tools need them.
    """
    _current.set(fields)


def trace_variables() -> dict[str, str]:
    """Return the fields as environment variables: `TRACEPARENT` and `TRACESTATE`."""
    return {name.upper(): value for name, value in trace_context().items()}
