"""Text that the user types while the program starts: it is not echoed, and Enter sends it."""

from __future__ import annotations

import os
import select
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_INPUT, _LOCAL = 0, 3
"""Places of the flags in the attributes of a terminal."""


@contextmanager
def quiet_terminal() -> Iterator[str]:
    """Turn off the terminal's echo and line editing until the end of the block. Yield what was typed before it.

    With line editing on, the terminal would turn Enter into a line break.
    """
    with _terminal_mode(is_quiet=True) as terminal:
        yield "" if terminal is None else _without_echo(_waiting(terminal))


@contextmanager
def usual_terminal() -> Iterator[None]:
    """Turn echo and line editing on again, for a question in the middle of a quiet terminal."""
    with _terminal_mode(is_quiet=False):
        yield


@contextmanager
def _terminal_mode(*, is_quiet: bool) -> Iterator[int | None]:
    """Set echo and line editing until the end of the block. Yield the terminal, or None if there is none."""
    try:
        terminal = sys.stdin.fileno()
        before = termios.tcgetattr(terminal)
    except (OSError, ValueError, termios.error):
        yield None
        return
    changed = list(before)
    for place, flags in ((_INPUT, termios.ICRNL), (_LOCAL, termios.ECHO | termios.ICANON)):
        changed[place] = changed[place] & ~flags if is_quiet else changed[place] | flags
    termios.tcsetattr(terminal, termios.TCSANOW, changed)
    try:
        yield terminal
    finally:
        with suppress(OSError, termios.error):  # the terminal may be gone
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _waiting(terminal: int) -> str:
    """Return what can be read at once."""
    if not select.select([terminal], [], [], 0)[0]:
        return ""
    with suppress(OSError):
        return os.read(terminal, 65536).decode(errors="replace")
    return ""


def _without_echo(typed: str) -> str:
    """Erase what the terminal has echoed, and return the keys."""
    if typed:
        sys.stdout.write("\r\x1b[K" + "\x1b[A\x1b[K" * typed.count("\n"))
        sys.stdout.flush()
    return typed.replace("\n", "\r")
