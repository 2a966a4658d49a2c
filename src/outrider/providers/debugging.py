"""The debug logger. It never logs a key.

Records of the logger "outrider" are masked before any handler sees them. Masked are the values of keys in the
environment, and anything that looks like a key of a known vendor.
"""

from __future__ import annotations

import logging

from outrider.text import clean

logger = logging.getLogger("outrider")


def mask(record: logging.LogRecord) -> bool:
    """Remove keys from a log record, and characters that cannot be written. Let every record pass."""
    from outrider.providers.credentials.secrets import configured, masked  # few programs log

    secrets = configured()
    record.msg, record.args = clean(masked(record.getMessage(), *secrets)), ()
    if record.exc_info:
        record.exc_text = clean(masked(logging.Formatter().formatException(record.exc_info), *secrets))
        record.exc_info = None  # handlers that format the exception themselves would show its text
    return True


logger.addFilter(mask)
