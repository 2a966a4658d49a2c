"""Telemetry of the terminal program and of editors: it neither prints nor keeps anybody waiting."""

from __future__ import annotations

import logging
import threading

from outrider.telemetry.telemetry import Telemetry

CLOSE_SECONDS = 3.0
"""How long the end of a session waits for an endpoint that does not answer."""


class BackgroundTelemetry(Telemetry):
    """Telemetry that loses what an unreachable endpoint does not take, without a word on the screen."""

    ends_with_process = False

    def __init__(self, *, capture: bool) -> None:
        logging.getLogger("opentelemetry").addHandler(logging.NullHandler())  # Python would print warnings otherwise
        super().__init__(capture=capture)

    def close(self) -> None:
        """Send what is collected and stop, within a few seconds."""
        closing = threading.Thread(target=super().close, name="outrider-telemetry", daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)
