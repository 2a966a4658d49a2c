"""The trace to which the current task belongs, as W3C Trace Context.

Telemetry sets it for each call of a tool. MCP servers and commands receive it, so that their own spans join the trace.
Nothing here needs OpenTelemetry.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar

_NONE: Mapping[str, str] = {}
_current: ContextVar[Mapping[str, str]] = ContextVar("trace_context", default=_NONE)


def trace_context() -> Mapping[str, str]:
    """Return `traceparent`, and `tracestate` if there is one; nothing if no trace is recorded."""
    return _current.get()


def set_trace_context(fields: Mapping[str, str]) -> None:
    """Set the fields for the current task, and for the tasks and threads that it starts from now on."""
    _current.set(fields)


def trace_variables() -> dict[str, str]:
    """Return the fields as environment variables: `TRACEPARENT` and `TRACESTATE`."""
    return {name.upper(): value for name, value in _current.get().items()}
