"""Standard input, which may be a terminal, a pipe, or closed."""

from __future__ import annotations

import sys
from typing import BinaryIO

from outrider.errors import OutriderError


def confirm(question: str, otherwise: str) -> bool:
    """Return whether the user answers yes. Without a terminal, raise OutriderError with the advice in `otherwise`."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise OutriderError(f"cannot ask for confirmation without a terminal; {otherwise}")
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def stdin_bytes() -> BinaryIO:
    """Return standard input as a binary stream. Raises OutriderError if it is closed."""
    if sys.stdin is None:
        raise OutriderError("standard input is closed; pipe in the data, or give a file")
    return sys.stdin.buffer
