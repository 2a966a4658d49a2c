"""A command from its start to its end: its output is read, its time is kept, and somebody may stop it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

from outrider.coding.toolbox.shell.output import Output
from outrider.coding.toolbox.shell.processes import Process, end

Cause: TypeAlias = Literal["ended", "timed out", "stopped"]

PIPE = 1024 * 1024
"""Bytes that a command may be ahead of who reads; the system may allow less."""
SHOWN_EVERY = 0.1
LOOKED_EVERY = 0.05
"""Seconds in which a stop is noticed at the latest."""
LAST_WORDS = 0.25
"""Seconds that those who live when the shell has ended have to finish, such as `>(tee log)`."""
FLOOD, LITTLE, NAP = 4 * 1024 * 1024, 256 * 1024, 0.0003
"""After so many bytes, a read of less than this is worth a rest: few large reads cost less than many small ones."""


class Ending(NamedTuple):
    """How a command ended."""

    cause: Cause
    exit_code: int | None
    """The shell's; the number of the signal that killed it, negative; None if it could not even be killed."""
    seconds: float
    left: int
    """Processes that still ran when the shell had ended, and were ended."""
    immortal: int
    """Processes that could not be ended."""


class Follower:
    """Follows one command, in a thread. Whatever happens to who waits for that thread, the command ends."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.stopped = False
        """Whether somebody wants the command to end."""

    def stop(self) -> None:
        """End the command. Safe from any thread, at any time."""
        self.stopped = True

    def follow(self, process: Process, reader: Reader) -> Ending:
        """Read the output until the shell has ended or must end; then end what is left of it."""
        began = time.monotonic()
        try:
            cause = self._wait(process, reader, began + self._seconds)
        finally:
            left, immortal = end([process], reader.read)
        reader.finish()
        exit_code = process.reap() if not immortal or process.ended() else None
        return Ending(cause, exit_code, time.monotonic() - began, left if cause == "ended" else 0, immortal)

    def _wait(self, process: Process, reader: Reader, deadline: float) -> Cause:
        while not process.ended():
            remaining = deadline - time.monotonic()
            if self.stopped or remaining <= 0:
                return "stopped" if self.stopped else "timed out"
            reader.read(min(remaining, LOOKED_EVERY), process.exit_handle)
        self._let_finish(process, reader)
        return "ended"

    def _let_finish(self, process: Process, reader: Reader) -> None:
        until, moment = time.monotonic() + LAST_WORDS, 0.005
        while process.family() and (remaining := until - time.monotonic()) > 0 and not self.stopped:
            reader.read(min(moment, remaining))
            moment *= 2


class Reader:
    """Reads from the pipe of a command, and shows what came, not too often."""

    def __init__(self, source: int, output: Output, show: Callable[[str], None]) -> None:
        self.open = True
        """Whether anybody can still print to it."""
        self._source = source
        self._output = output
        self._show = show
        self._shown_at = 0.0

    def read(self, seconds: float, unless: int | None = None) -> None:
        """Read what comes for so long: up to the end of the output, or until the other handle can be read."""
        import select

        until = time.monotonic() + seconds
        poll = select.poll()
        for handle in (self._source if self.open else None, unless):
            if handle is not None:
                poll.register(handle, select.POLLIN)
        while (remaining := until - time.monotonic()) > 0:
            ready = dict(poll.poll(remaining * 1000))
            if self._source in ready:
                self._take(until)
            self._show_sometimes()
            if unless in ready or (self._source in ready and not self.open):
                return

    def finish(self) -> None:
        """Read what is left in the pipe, and show it."""
        if self.open:
            self._take(time.monotonic() + LAST_WORDS)
        self._show_news()
        self._output.close()

    def _take(self, until: float) -> None:
        """Read what is there and what comes meanwhile."""
        output = self._output
        with contextlib.suppress(BlockingIOError):
            while count := output.take(self._source):
                if time.monotonic() > until:
                    return
                if count < LITTLE and output.total > FLOOD:
                    time.sleep(NAP)
            self.open = False

    def _show_sometimes(self) -> None:
        now = time.monotonic()
        if now - self._shown_at >= SHOWN_EVERY:
            self._shown_at = now
            self._show_news()

    def _show_news(self) -> None:
        if news := self._output.news():
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody is there to see it
                self._show(news)


def make_pipe() -> tuple[int, int]:
    """A pipe as large as the system allows; reading from it never waits."""
    import fcntl

    source, sink = os.pipe()
    os.set_blocking(source, False)
    with contextlib.suppress(OSError, AttributeError):
        fcntl.fcntl(source, fcntl.F_SETPIPE_SZ, PIPE)
    return source, sink
