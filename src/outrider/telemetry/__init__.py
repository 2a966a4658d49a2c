"""OpenTelemetry: spans and metrics made from the events of sessions."""

from outrider.exports import lazy

TYPE_CHECKING = False  # as in typing: nothing is imported before it is used
if TYPE_CHECKING:
    from outrider.telemetry.telemetry import Telemetry as Telemetry

_EXPORTED = {"outrider.telemetry.telemetry": "Telemetry"}

__all__ = sorted(" ".join(_EXPORTED.values()).split())

if not TYPE_CHECKING:
    __getattr__ = lazy(__name__, _EXPORTED)
