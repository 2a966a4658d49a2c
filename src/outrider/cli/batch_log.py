"""The log that `outrider batch` and `outrider worker` use."""

from __future__ import annotations

from outrider.log.log import Log
from outrider.sync import default_log


def open_log(url: str | None) -> Log:
    """Return the log at a URL or in a folder; by default that of the terminal program."""
    return Log(url) if url else default_log()
