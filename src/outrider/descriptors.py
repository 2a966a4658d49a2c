"""File descriptors of the process."""

from __future__ import annotations

import os
import sys


def fill_closed_streams() -> None:
    """Open /dev/null in place of closed standard streams, so that no other file gets their descriptor numbers."""
    while (taken := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(taken)


def real_path(handle: int) -> str:
    """Return the path of an open file with links resolved; empty if the system does not provide it."""
    try:
        return os.readlink(f"/proc/self/fd/{handle}")
    except OSError:
        pass
    if sys.platform == "darwin":
        import fcntl

        return os.fsdecode(fcntl.fcntl(handle, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
    return ""
