"""Standard input, which may be a terminal, a pipe, or closed."""

from __future__ import annotations

import select
import sys
import termios
from contextlib import suppress
from typing import BinaryIO

from outrider.errors import OutriderError


def confirm(question: str, otherwise: str) -> bool:
    """Return whether the user answers yes. Without a terminal, raise OutriderError with the advice in `otherwise`.

    What was typed before the question, and several lines at once, are no answer.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        raise OutriderError(f"cannot ask for confirmation without a terminal; {otherwise}")
    with suppress(OSError, ValueError, termios.error):
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    print(question, end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if _has_more():
        print("Several lines were pasted; that is no answer.", file=sys.stderr)
        return False
    return line.strip().lower() in ("y", "yes")


def _has_more() -> bool:
    with suppress(OSError, ValueError):
        return bool(select.select([sys.stdin], [], [], 0)[0])
    return False


def stdin_bytes() -> BinaryIO:
    """Return standard input as a binary stream. Raises OutriderError if it is closed."""
    if sys.stdin is None:
        raise OutriderError("standard input is closed; pipe in the data, or give a file")
    return sys.stdin.buffer
