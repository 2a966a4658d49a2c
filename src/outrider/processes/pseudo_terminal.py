"""A terminal of its own for a program: made, sized, and made the one that its keys and signals come from."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

Size = tuple[int, int]
"""Columns and rows."""

# In the program's place, after any sandbox: bwrap begins a session in which the terminal is none yet. Only a session's
# leader can take a terminal, and only one that no other session has.
_TAKE = """
import fcntl, os, sys, termios
try:
    os.setsid()
except OSError:
    pass
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def open_terminal(size: Size) -> tuple[int, int]:
    """Return our end, from which reading does not block, and the program's end. Raises OSError."""
    ours, program = os.openpty()
    os.set_blocking(ours, False)
    set_size(ours, size)
    return ours, program


def set_size(terminal: int, size: Size) -> None:
    """Set the size. The programs in the terminal are told."""
    import termios

    termios.tcsetwinsize(terminal, (size[1], size[0]))


def taking_terminal(argv: Sequence[str]) -> list[str]:
    """Return the command that makes its standard input the terminal of a new session, then runs `argv`."""
    return [sys.executable, "-I", "-S", "-c", _TAKE, *argv]


def is_read_by_key(terminal: int) -> bool:
    """Return whether the program takes keys one by one or unseen, as editors, shells and password prompts do."""
    import termios

    try:
        flags = termios.tcgetattr(terminal)[3]
    except termios.error:
        return False
    return not flags & termios.ICANON or not flags & termios.ECHO
