"""Standard input, which may be a terminal, a pipe, or closed."""

from __future__ import annotations

import sys
from typing import BinaryIO

from outrider.errors import OutriderError


def agreed(question: str, otherwise: str) -> bool:
    """Whether the person at the terminal says yes. Raises OutriderError if nobody is there: what to do otherwise."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise OutriderError(f"there is no terminal to ask on; {otherwise}")
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def given() -> BinaryIO:
    """The bytes that are piped in. Raises OutriderError if it is closed."""
    if sys.stdin is None:
        raise OutriderError("standard input is closed; pipe something in, or name a file")
    return sys.stdin.buffer
