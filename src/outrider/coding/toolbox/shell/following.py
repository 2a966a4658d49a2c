"""Follow a command to its end: read its output, enforce its timeout, and stop it on request."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

from outrider.coding.toolbox.shell.output import Output
from outrider.processes.processes import Process, end

Cause: TypeAlias = Literal["ended", "timed out", "stopped", "moved"]
"""Why the call does not wait any longer; `moved`: to the background, where the command goes on."""

PIPE = 1024 * 1024
"""The size of the pipe in bytes; the system may allow less."""
SHOW_EVERY = 0.1
"""Seconds between two times that the thread wakes the event loop with new output. The first output is shown at once."""
POLL_EVERY = 0.05
"""Seconds within which a stop is noticed."""
DRAIN_SECONDS = 0.25
"""Seconds that other processes have to finish after the shell has ended, such as `>(tee log)`."""
FLOOD, LITTLE, NAP = 4 * 1024 * 1024, 256 * 1024, 0.0003
"""After FLOOD bytes, sleep NAP seconds after each read of less than LITTLE: a few large reads are cheaper."""


class Outcome(NamedTuple):
    """How a command ended."""

    cause: Cause
    exit_code: int | None
    """The shell's exit code; negative for the signal that killed it; None if it could not be killed."""
    seconds: float
    left_running: int
    """Number of processes that still ran after the shell and were ended."""
    unkillable: int
    """Number of processes that could not be ended."""


class Follower:
    """Follows one command in a thread. The command ends even if the caller is gone."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.stopped = False
        """Whether the command should end."""
        self._moved = False

    def stop(self) -> None:
        """Stop the command. Thread-safe; may be called at any time."""
        self.stopped = True

    def move(self) -> None:
        """Leave the command running, for another to follow. Thread-safe; once it has ended, nothing is moved."""
        self._moved = True

    def follow(self, process: Process, reader: Reader) -> Outcome:
        """Read the output until the shell has ended or must end; then end the remaining processes."""
        began = time.monotonic()
        left_running = unkillable = 0
        cause: Cause = "stopped"
        try:
            cause = self._wait(process, reader, began + self._seconds)
        finally:
            if cause != "moved":
                left_running, unkillable = end([process], reader.read)
        if cause == "moved":
            return Outcome(cause, None, time.monotonic() - began, 0, 0)
        reader.finish()
        exit_code = process.reap() if not unkillable or process.ended() else None
        return Outcome(cause, exit_code, time.monotonic() - began, left_running if cause == "ended" else 0, unkillable)

    def _wait(self, process: Process, reader: Reader, deadline: float) -> Cause:
        while not process.ended():
            remaining = deadline - time.monotonic()
            if self.stopped or remaining <= 0:
                return "stopped" if self.stopped else "timed out"
            if self._moved:
                return "moved"
            reader.read(min(remaining, POLL_EVERY), process.exit_handle)
        self._drain(process, reader)
        return "ended"

    def _drain(self, process: Process, reader: Reader) -> None:
        until, moment = time.monotonic() + DRAIN_SECONDS, 0.005
        while process.running() and (remaining := until - time.monotonic()) > 0 and not self.stopped:
            reader.read(min(moment, remaining))
            moment *= 2


class Reader:
    """Reads the pipe of a command and reports new output at intervals."""

    def __init__(self, source: int, output: Output, progress: Callable[[object], None]) -> None:
        self.open = True
        """Whether any process can still write to the pipe."""
        self._source = source
        self._output = output
        self._progress = progress
        self._shown_at = 0.0

    def read(self, seconds: float, or_readable: int | None = None) -> None:
        """Read for up to `seconds`: to the end of the output, or until the other handle is readable."""
        import select

        until = time.monotonic() + seconds
        poll = select.poll()
        for handle in (self._source if self.open else None, or_readable):
            if handle is not None:
                poll.register(handle, select.POLLIN)
        while (remaining := until - time.monotonic()) > 0:
            ready = dict(poll.poll(remaining * 1000))
            if self._source in ready:
                self._read_available(until)
            if time.monotonic() - self._shown_at >= SHOW_EVERY:
                self._show_new()
            if or_readable in ready or (self._source in ready and not self.open):
                return

    def finish(self) -> None:
        """Read and show the rest of the pipe."""
        if self.open:
            self._read_available(time.monotonic() + DRAIN_SECONDS)
        self._show_new()
        self._output.close()

    def _read_available(self, until: float) -> None:
        """Read what is available, and what arrives meanwhile."""
        output = self._output
        with contextlib.suppress(BlockingIOError):
            while count := output.read_from(self._source):
                if time.monotonic() > until:
                    return
                if count < LITTLE and output.total > FLOOD:
                    time.sleep(NAP)
            self.open = False

    def _show_new(self) -> None:
        if new := self._output.new_text():
            self._shown_at = time.monotonic()
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                self._progress({"output": new})


def make_pipe() -> tuple[int, int]:
    """Return a pipe as large as the system allows. Reading from it does not block."""
    import fcntl

    source, sink = os.pipe()
    os.set_blocking(source, False)
    with contextlib.suppress(OSError, AttributeError):
        fcntl.fcntl(source, fcntl.F_SETPIPE_SZ, PIPE)
    return source, sink
