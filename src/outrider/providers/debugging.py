"""What is logged for debugging: never with a key in it.

Records of the logger "outrider" are masked before any handler sees them: the values of the keys in the environment, and
whatever looks like a key of a known vendor.
"""

from __future__ import annotations

import logging

from outrider.providers.secrets import configured, masked

logger = logging.getLogger("outrider")


def mask(record: logging.LogRecord) -> bool:
    """A filter for records: it lets all of them pass, without keys."""
    secrets = configured()
    record.msg, record.args = masked(record.getMessage(), *secrets), ()
    if record.exc_info:
        record.exc_text = masked(logging.Formatter().formatException(record.exc_info), *secrets)
        record.exc_info = None  # handlers that look at the exception itself would see what it says
    return True


logger.addFilter(mask)
