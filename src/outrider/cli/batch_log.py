"""The log that `outrider batch` and `outrider worker` use."""

from __future__ import annotations

import os

from outrider.log.log import Log
from outrider.sync import default_log


def open_log(url: str | None) -> Log:
    """Return the log at a URL or in a folder; by default that of OUTRIDER_LOG, or of the terminal program."""
    place = url or os.environ.get("OUTRIDER_LOG")
    return Log(place) if place else default_log()
