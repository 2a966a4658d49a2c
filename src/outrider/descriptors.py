"""File descriptors of the process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TextIO


def fill_closed_streams() -> None:
    """Open /dev/null in place of closed standard streams, so that no other file gets their descriptor numbers."""
    while (taken := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(taken)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - open until the process ends


@contextmanager
def reserved_input() -> Iterator[int]:
    """Provide standard input for a protocol: other code of this process and its children find it empty."""
    fill_closed_streams()
    own = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        yield own
    finally:
        os.dup2(own, 0)
        os.close(own)


@contextmanager
def reserved_output() -> Iterator[int]:
    """Provide standard output for a protocol: other prints of this process and its children go to standard error."""
    fill_closed_streams()
    stdout = sys.stdout
    with suppress(OSError):
        stdout.flush()
    own = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield own
    finally:
        with suppress(OSError):
            stdout.flush()
        os.dup2(own, 1)
        os.close(own)


def discard_output(stream: TextIO) -> None:
    """Discard further output after the reader has gone, as with `| head`, so that the final flush does not fail."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, stream.fileno())
    os.close(nothing)


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
